print('\uff11\uff12')
