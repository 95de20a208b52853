-- The end of the script for EVALSHA: the first argument is the command's word.
return need('commands')(string.lower(word or ''), KEYS, ARGV, 2)
