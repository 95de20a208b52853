-- The end of the Functions library: registers the commands as sluice_check and so on, readers as such. While a library
-- is loaded there is nothing but `redis` to call: no ipairs, no string.
local WRITERS = {'throttle', 'hold', 'lease', 'acquire', 'reserve'}
-- What they write takes no memory to speak of, or was promised before.
local RELIEVERS = {'refund', 'reset', 'confirm', 'cancel', 'release', 'renew', 'commit'}
local READERS = {'inspect', 'holders', 'version'}

local function register(words, flags)
	for i = 1, #words do
		local word = words[i]
		redis.register_function({
			function_name = 'sluice_' .. word,
			callback = function(keys, args)
				return need('commands').run(word, keys, args, 1)
			end,
			flags = flags,
		})
	end
end

local function register_check(word, writes, flags)
	redis.register_function({
		function_name = 'sluice_' .. word,
		callback = function(keys, args)
			return need('direct')(keys, args, 1, writes) or need('commands').run(word, keys, args, 1)
		end,
		flags = flags,
	})
end

register_check('check', true, {})
register_check('peek', false, {'no-writes'})
register(WRITERS, {})
register(RELIEVERS, {'allow-oom'})
register(READERS, {'no-writes'})
