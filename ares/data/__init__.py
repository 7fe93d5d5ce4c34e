"""Problems from files and data sets: prompts, answers, tests, images and videos.

Covered: reading and checking rows, their formats, media. Not covered: the order in which they are drawn
(ares/step/cursor.py), scoring responses (ares/grading).
"""

from typing import TYPE_CHECKING

from ares.lazy import exports

if TYPE_CHECKING:
    from ares.data.chats import (
        chat_with_tools,
        check_shown,
        check_template,
        checked_messages,
        client_chat,
        conversation,
        odd_in_template,
        refuse_messages_as_text,
        rendered,
        show_tools,
        tools_of,
        write_chat,
    )
    from ares.data.check import (
        CheckReport,
        Finding,
        check_rows,
        compare_with_held_out,
        find_overlaps,
        named,
    )
    from ares.data.code import CodeProblem, packages_of, program
    from ares.data.code_sets import FENCE, STATEMENTS
    from ares.data.media import MARK, MediaError, MediaReader, Patches, content_hash, is_video, path_of, thumbnail
    from ares.data.problems import (
        ASKED,
        OWN,
        Problems,
        as_problems,
        digest_of,
        joined,
        level_of,
        load_held_out,
        load_problems,
        load_tokenizer,
        load_train,
        merged,
    )
    from ares.data.rows import GRADER, OPENING, Row, each_row, missing_columns, named_rows
    from ares.data.sources import DataError, format_of, is_missing, place, read_rows, shown
    from ares.data.turns import TurnTemplate
    from ares.data.vision import Vision, check_media, has_media, in_parts
else:
    __getattr__ = exports(__name__)
