-- What becomes of a call where Redis has no memory for more (maxmemory, and nothing to evict): it refuses the first
-- write of a script that could take some. Nothing has been written then, so the call is begun anew, knowing it
-- (call.full): what finds no room is denied, and what is there goes on.
--
-- Likewise a log that has as many entries as one may have, which is seen when one is to be added, before anything is
-- written: the call is begun anew, knowing which (call.outgrown: the name of each, and the position with which the
-- first of its chunks is gone).
local room = {}
-- SLUICE_BOUND_ROOM of include/sluice.h, and after how many milliseconds it may have passed.
local ROOM, MOMENT = 2, 1000
-- Of a log, leases or members: so many fit what a counter takes as soon as it is there.
local FEW = 128

local function name(c)
	return c.key .. '\0' .. c.field
end

-- A series can have no further chunk until what stands up to `position` is gone.
function room.outgrown(c, position)
	error({outgrown = name(c), position = position}, 0)
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
	if call.outgrown[name(c)] then
		return true
	elseif not call.full then
		return false
	elseif not c.stored and not c.stored_holds then
		return true
	end
	-- Series (`changes`), and lists of who is counted (`find`), have entries: all others are as long as they were.
	local entries = limit.steps.changes or limit.steps.find
	return not call.settles and entries and (limit.parts or limit.quota) > FEW
end

-- What such an item answers: retry, reset and the bound that it met.
function room.wait(item, call, reset)
	local limit, position = item.limit, call.outgrown[name(item.counter)]
	local retry = position and position + limit.window - item.v.t or math.min(limit.window, MOMENT)
	return retry, math.max(reset, retry), ROOM
end

room.bound = ROOM

return room
