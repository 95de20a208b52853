-- ID on CHECK: a request that is retried is charged once. What was charged under a token for a set of counters is
-- kept in the field "?" of the first key, 28 bytes each, those that end first first, until the longest window is over;
-- at most 1,024 of them: beyond, those that would end first go, and a retry of theirs is charged.
local numbers = need('numbers')
local tokens = {}
local BYTES, MOST = 28, 1024

-- The digest of a token and the counters of a call, whatever their order: 8 bytes.
local function digest(call)
	local names, window = {}, 0
	for i, item in ipairs(call.items) do
		names[i] = item.key .. '\0' .. (item.field or '')
		window = math.max(window, item.limit.window or 0)
	end
	table.sort(names)
	return need('whose').member(call.id .. '\0' .. table.concat(names, '\0')), window
end

local function each(raw, from, try)
	for at = from, #raw - BYTES + 1, BYTES do
		local ends, granted, leaves, mark = struct.unpack('<dI4dc8', raw, at)
		local found = try(ends, granted, leaves, mark, at)
		if found then
			return found
		end
	end
end

-- What was charged under the call's token, as {granted, leaves}; or nil.
function tokens.find(call)
	local mark, window = digest(call)
	call.mark, call.window = mark, window
	local raw = redis.pcall('HGET', call.items[1].key, '?')
	if type(raw) == 'table' and raw.err then
		error({sluice = raw.err}, 0)
	end
	call.tokens = raw or ''
	return each(call.tokens, 1, function(ends, granted, leaves, one)
		if one == mark and ends > call.now and numbers.sound(leaves) then
			return {granted = granted, leaves = leaves}
		end
	end)
end

-- Notes that the call has been charged `granted`, and when a shaped request leaves.
function tokens.note(call, granted, delay)
	local ends, parts, key = call.now + call.window, {}, call.items[1].key
	local entry, placed = struct.pack('<dI4dc8', ends, granted, call.now + delay, call.mark), false
	each(call.tokens, 1, function(its_end, _, _, mark, at)
		if its_end > call.now and mark ~= call.mark then
			if not placed and its_end > ends then
				parts[#parts + 1], placed = entry, true
			end
			parts[#parts + 1] = call.tokens:sub(at, at + BYTES - 1)
		end
	end)
	if not placed then
		parts[#parts + 1] = entry
	end
	need('room').write(call, key, '?', table.concat(parts, '', math.max(1, #parts - MOST + 1)))
	need('expiry')(key, ends, call.now, call.set)
end

return tokens
