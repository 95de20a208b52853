-- The end of the script for EVALSHA: the first argument is the command's word.
local word = ARGV[1] and string.lower(ARGV[1])
if word == 'check' or word == 'peek' then
	local reply = need('direct')(KEYS, ARGV, 2, word == 'check')
	if reply then
		return reply
	end
else
	local words = {refund = 1, reset = 1, inspect = 1, throttle = 1, hold = 1, confirm = 1, cancel = 1, lease = 1,
		acquire = 1, release = 1, renew = 1, holders = 1, reserve = 1, commit = 1, version = 1}
	if not words[word] then
		return {err = 'ERR expected a command as the first argument: CHECK, PEEK, REFUND, RESET, HOLD, CONFIRM, ' ..
			'CANCEL, LEASE, ACQUIRE, RELEASE, RENEW, HOLDERS, THROTTLE, INSPECT or VERSION'}
	end
end
return need('commands').run(word, KEYS, ARGV, 2)
