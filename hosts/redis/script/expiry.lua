-- When keys expire: with the last of their counters.

-- From when on a counter that stands so matters no more.
local function ends(limit, v)
	local steps = limit.steps
	return steps.ends and steps.ends(limit, v) or v.t + steps.reset(limit, v)
end

-- Lets a key live until the instant, unless it lives longer already, as one does that was there without an expiry: what
-- else is in it may last longer. `ttl`: its PTTL before it was written to, or false: it was there. What has an expiry
-- then gets a later one with one command. How much longer it lives where the caller sets the instants (`set`): they
-- need not pass as the server's clock does.
local function keep(key, ends, now, set, ttl)
	if not ttl and not set and redis.REDIS_VERSION_NUM and redis.call('PEXPIREAT', key, ends, 'GT') == 1 then
		return
	end
	local life = set and ends - now + 3600000 or ends - now
	ttl = ttl or redis.call('PTTL', key)
	if ttl == -1 or ttl >= life then
		return
	elseif set then
		redis.call('PEXPIRE', key, string.format('%.0f', life))
	else
		redis.call('PEXPIREAT', key, string.format('%.0f', ends))
	end
end

return {ends = ends, keep = keep}
