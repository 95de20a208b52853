-- The end of the Functions library: registers the commands as sluice_check and so on, readers as such. While a library
-- is loaded there is nothing but `redis` to call: no ipairs, no string.
local function register(word, flags)
	redis.register_function({
		function_name = 'sluice_' .. word,
		callback = function(keys, args)
			return need('commands')(word, keys, args, 1)
		end,
		flags = flags,
	})
end

redis.register_function('sluice_check', function(keys, args)
	return direct(keys, args, 1, true) or need('commands')('check', keys, args, 1)
end)
redis.register_function({function_name = 'sluice_peek', flags = {'no-writes'}, callback = function(keys, args)
	return direct(keys, args, 1, false) or need('commands')('peek', keys, args, 1)
end})
register('hold', {})
register('lease', {})
register('acquire', {})
-- What these write takes no memory to speak of, or was promised before.
register('refund', {'allow-oom'})
register('reset', {'allow-oom'})
register('confirm', {'allow-oom'})
register('cancel', {'allow-oom'})
register('release', {'allow-oom'})
register('renew', {'allow-oom'})
register('version', {'no-writes'})
-- These are refused, with a word on where else they are.
register('throttle', {'no-writes'})
register('inspect', {'no-writes'})
register('holders', {'no-writes'})
register('reserve', {'no-writes'})
register('override', {'no-writes'})
register('commit', {'no-writes'})
