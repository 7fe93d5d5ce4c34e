"""What a test may use of numpy and pandas, if the sandbox has them, and still run apart from its program.

A test that imports another package runs in the program's process, since its values do not cross.
"""

from sandbox.vocabulary import words

MODULES = words("numpy numpy.fft numpy.linalg numpy.random numpy.testing pandas pandas.testing")
# State and files that the program would see too; exceptions of the packages; values that do not cross.
TOGETHER_ATTRIBUTES = words(
    """
    seed set_state get_state seterr geterr seterrcall setbufsize errstate set_printoptions printoptions set_option
    reset_option option_context options memmap load loadtxt genfromtxt fromfile fromregex save savez savez_compressed
    savetxt lib core ctypeslib f2py ma rec record recarray void matrix asmatrix mat bmat dtypes
    LinAlgError AxisError exceptions errors ComplexWarning VisibleDeprecationWarning RankWarning
    read_clipboard read_csv read_excel read_feather read_fwf read_hdf read_html read_json read_orc read_parquet
    read_pickle read_sas read_spss read_sql read_sql_query read_sql_table read_stata read_table read_xml
    to_pickle HDFStore ExcelFile ExcelWriter api arrays plotting tseries io offsets Flags
    Interval IntervalDtype IntervalIndex interval_range cut qcut Period PeriodDtype PeriodIndex period_range
    SparseDtype DateOffset Grouper NamedAgg
    """
)
LOCAL_RESULTS = words(
    """
    vectorize frompyfunc poly1d nditer ndenumerate ndindex broadcast default_rng RandomState Generator SeedSequence
    PCG64 MT19937 finfo iinfo flatiter nested_iters
    """
)
TYPES = words(
    """
    ndarray generic number integer signedinteger unsignedinteger inexact floating complexfloating flexible character
    bool bool_ int8 int16 int32 int64 int_ intc intp uint8 uint16 uint32 uint64 uint uintp uintc float16 float32
    float64 double single half longdouble complex64 complex128 datetime64 timedelta64 str_ bytes_ object_
    DataFrame Series Index RangeIndex MultiIndex DatetimeIndex TimedeltaIndex CategoricalIndex Timestamp Timedelta
    """
)
"""Classes whose instances cross, so that isinstance is right about a copy."""
VALUES = TYPES | words("pi e nan NaN inf Inf newaxis NA NaT euler_gamma True_ False_")
"""Attributes of the modules that are plain values, or cross by name."""
CHANGING_FUNCTIONS = words("copyto place put putmask put_along_axis fill_diagonal shuffle")
MUTATORS = words("fill itemset partition put resize setfield setflags")
CHANGING_KEYWORDS = words("out inplace")
DATA_FIELDS = words(
    """
    T dtype flags imag itemsize nbytes ndim real shape size strides
    at axes cat columns dt dtypes empty hasnans iat iloc index is_monotonic_decreasing is_monotonic_increasing is_unique
    levels loc name names nlevels str values
    """
)
DATA_ATTRIBUTES = DATA_FIELDS | MUTATORS | words(
    """
    all any argmax argmin argpartition argsort astype choose clip compress conj conjugate copy cumprod cumsum diagonal
    dot flatten item max mean min nonzero partition prod ravel repeat reshape round searchsorted sort squeeze std sum
    swapaxes take tobytes tolist trace transpose var view
    abs add add_prefix add_suffix agg aggregate align apply asfreq asof assign autocorr between bfill bool cov corr
    combine combine_first corrwith count cummax cummin describe diff div divide drop drop_duplicates droplevel dropna
    duplicated eq equals ewm expanding explode factorize ffill fillna filter first_valid_index floordiv ge get
    get_group get_level_values groupby gt head idxmax idxmin infer_objects insert interpolate isin isna isnull items
    iterrows itertuples join kurt last_valid_index le lt map mask median melt memory_usage merge mod mode mul multiply
    ne nlargest notna notnull nsmallest nunique pct_change pipe pivot pivot_table pop pow product quantile query rank
    reindex rename rename_axis reorder_levels replace resample reset_index rolling sample select_dtypes sem set_axis
    set_index shift skew sort_index sort_values stack sub subtract tail to_dict to_frame to_list to_numpy
    to_records transform truediv truncate tz_convert tz_localize unique unstack update value_counts where xs
    day dayofweek dayofyear hour microsecond minute month nanosecond normalize quarter second strftime total_seconds
    week weekday year date time days seconds isoformat to_pydatetime to_timedelta64 to_datetime64
    from_arrays from_dict from_frame from_product from_records from_tuples
    contains endswith len lower lstrip match pad rstrip slice split startswith strip title upper zfill
    """
)  # fmt: skip
