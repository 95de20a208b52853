-- When keys expire: with the last of their counters.
-- How much longer a key lives where the caller sets the instants: they need not pass as the server's clock does.
local CLIENT_TIME_SLACK = 3600000

-- Moves a key's expiry to the instant, unless it is later already; `set`: the caller sets the instants.
return function(key, ends, now, set)
	local left = redis.call('PTTL', key)
	local life = ends - now
	if set then
		life = life + CLIENT_TIME_SLACK
	end
	if left >= life then
		return
	elseif set then
		redis.call('PEXPIRE', key, string.format('%.0f', life))
	else
		redis.call('PEXPIREAT', key, string.format('%.0f', ends))
	end
end
