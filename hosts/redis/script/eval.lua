-- The end of the script for EVALSHA: the first argument is the command's word, or a CHECK or PEEK of one limit as bytes
-- that the straight way has left: as words to the others.
local args = ARGV
if packed then
	local writes, kind, cost, quota, width, field = struct.unpack('<Bc1I4I4dBc0', packed)
	local name = field:match('^[^@]*@(.*)$')
	word = writes == 1 and 'CHECK' or 'PEEK'
	args = {word, string.format('%.0f', cost), 'EXACT'}
	if name then
		args[4], args[5] = 'NAME', name
	end
	args[#args + 1] = (({W = 'sliding-window', F = 'fixed-window', L = 'sliding-log'})[kind] or kind) ..
		string.format(' %.0f/%.0fms', quota, width)
end
return need('commands')(string.lower(word or ''), KEYS, args, 2)
