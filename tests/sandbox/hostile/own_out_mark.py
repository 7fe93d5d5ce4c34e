print('\ufeff2')
