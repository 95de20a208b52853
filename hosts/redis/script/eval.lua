-- The end of the script for EVALSHA: the first argument is the command's word.
local WORDS = {CHECK = 1, PEEK = 1, REFUND = 1, RESET = 1, INSPECT = 1, THROTTLE = 1, HOLD = 1, CONFIRM = 1, CANCEL = 1,
	LEASE = 1, VERSION = 1}
local word = ARGV[1] and string.upper(ARGV[1])
if not WORDS[word] then
	return {err = 'ERR expected a command as the first argument: CHECK, PEEK, REFUND, RESET, HOLD, CONFIRM, CANCEL, ' ..
		'LEASE, THROTTLE, INSPECT or VERSION'}
end
return need('commands').run(string.lower(word), KEYS, ARGV, 2)
