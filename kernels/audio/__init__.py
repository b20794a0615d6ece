"""Operations on samples of speech."""
