-- What becomes of a call where Redis has no memory for more (maxmemory, and nothing to evict): it refuses the first
-- write of a script that could take some. Nothing has been written then, so the call is begun anew (commands.lua),
-- knowing it (call.full): what finds no room is denied, and what is there goes on. For Redis lets a script write on
-- that has written before, and to delete a field that nobody has is a write, too.
--
-- Likewise a log that has as many entries as one may have, which is seen when one is to be added, before anything is
-- written: the call is begun anew, knowing which (call.outgrown: the name of each, and the position with which the
-- first of its chunks is gone).
local room = {}
-- SLUICE_BOUND_ROOM of include/sluice.h, and after how many milliseconds it may have passed.
local ROOM, MOMENT = 2, 1000
-- Of a log, leases or members: so many fit what a counter takes as soon as it is there.
local FEW = 128

function room.write(call, key, ...)
	if call.full and not call.wrote then
		redis.call('HDEL', key, '')
		call.wrote = true
	end
	local reply = redis.pcall('HSET', key, ...)
	local why = type(reply) == 'table' and reply.err
	if why then
		error(why:find('OOM command', 1, true) and not call.full and {full = true} or {sluice = why}, 0)
	end
end

local function name(c)
	return c.key .. '\0' .. c.field
end

-- A series can have no further chunk until what stands up to `position` is gone.
function room.outgrown(s, position)
	error({outgrown = name(s), position = position}, 0)
end

-- Serves a call anew, as often as it meets a bound that it did not know of.
function room.again(serve, why, word, keys, args, at)
	local full, outgrown, ok = false, {}, false
	while not ok and type(why) == 'table' and (why.full or why.outgrown and not outgrown[why.outgrown]) do
		full = full or why.full
		if why.outgrown then
			outgrown[why.outgrown] = why.position
		end
		ok, why = pcall(serve, word, keys, args, at, full, outgrown)
	end
	return ok, why
end

-- Whether a charge of an item, or a hold, would take what there is none of.
function room.lacks(item, call)
	local c, limit = item.counter, item.limit
	if call.outgrown and call.outgrown[name(c)] then
		return true
	elseif not call.full then
		return false
	end
	if not c.ends and not c.raw_holds then
		return true
	end
	local kind = limit.kind
	if call.word == 'CONFIRM' or call.word == 'LEASE' or kind == 'W' or kind == 'F' or kind == 'T' or kind == 'K' or
		kind == 'C' then
		return false
	end
	return (limit.parts or limit.quota) > FEW
end

-- What such an item answers: retry, reset and the bound that it met.
function room.wait(item, call, reset)
	local limit, position = item.limit, call.outgrown and call.outgrown[name(item.counter)]
	local retry = position and position + limit.window - item.v.t or math.min(limit.window or MOMENT, MOMENT)
	return retry, math.max(reset, retry), ROOM
end

room.bound = ROOM

return room
