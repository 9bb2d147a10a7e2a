"""Operations on the queue as a whole: for people, commands and the admin."""
