print('\u0663 \uff12 \u00b2')
