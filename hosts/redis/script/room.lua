-- What becomes of a call where Redis has no memory for more (maxmemory, and nothing to evict): it refuses the first
-- write of a script that could take some. Nothing has been written then, so the call is begun anew (commands.lua),
-- knowing it (call.full): what finds no room is denied, and what is there goes on. For Redis lets a script write on
-- that has written before, and to delete a field that nobody has is a write, too.
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

-- Whether a charge of an item, or a hold, would take memory.
function room.lacks(item, call)
	local c, limit = item.counter, item.limit
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
function room.wait(limit, reset)
	local retry = math.min(limit.window or MOMENT, MOMENT)
	return retry, math.max(reset, retry), ROOM
end

room.bound = ROOM

return room
