-- ID on CHECK: a request that is retried is charged once. What was charged under a token for a set of counters is
-- kept in the field "?" of the first key with a counter, 28 bytes each, those that end first first, until the longest
-- window is over: d end, I4 what was charged, d when a shaped request leaves, 8 bytes of digest. At most 1,024 of them:
-- beyond, those that would end first go, and a retry of theirs is charged.
local counter = need('counter')
local tokens = {}
local BYTES, MOST = 28, 1024

-- The digest of a token and the set of a call's counters: 8 bytes; the longest window; and the first key of them, nil
-- where nothing counts. What is unlimited has no counter, and candidates charge none.
local function digest(call)
	local names, known, window, key = {}, {}, 0, nil
	for _, item in ipairs(call.items) do
		if item.field and not item.tried then
			local name = item.key .. '\0' .. item.field
			if not known[name] then
				names[#names + 1], known[name] = name, true
			end
			window, key = math.max(window, item.limit.window), key or item.key
		end
	end
	table.sort(names)
	return need('words').fingerprint(call.id .. '\0' .. table.concat(names, '\0')), window, key
end

-- What was charged under the call's token, as {granted, leaves}; or nil.
function tokens.find(call)
	local mark, window, key = digest(call)
	if not key then
		return nil
	end
	local raw = redis.pcall('HGET', key, '?')
	if type(raw) == 'table' and raw.err then
		error({sluice = raw.err}, 0)
	end
	call.mark, call.window, call.tokens, call.token_key = mark, window, raw or '', key
	for at = 1, #call.tokens - BYTES + 1, BYTES do
		local ends, granted, leaves, one = struct.unpack('<dI4dc8', call.tokens, at)
		if one == mark and ends > call.now and need('numbers').sound(leaves) then
			return {granted = granted, leaves = leaves}
		end
	end
end

-- Notes that the call has been charged its cost, and when a shaped request leaves.
function tokens.note(call)
	if not call.token_key then
		return
	end
	local ends, delay, parts, placed = call.now + call.window, 0, {}, false
	for _, item in ipairs(call.items) do
		delay = item.observed and delay or math.max(delay, item.delay)
	end
	local entry = struct.pack('<dI4dc8', ends, call.cost, call.now + delay, call.mark)
	for at = 1, #call.tokens - BYTES + 1, BYTES do
		local its_end, _, _, mark = struct.unpack('<dI4dc8', call.tokens, at)
		if its_end > call.now and mark ~= call.mark then
			if not placed and its_end > ends then
				parts[#parts + 1], placed = entry, true
			end
			parts[#parts + 1] = call.tokens:sub(at, at + BYTES - 1)
		end
	end
	if not placed then
		parts[#parts + 1] = entry
	end
	local key = call.token_key
	local ttl = redis.call('PTTL', key)
	counter.write(call, key, '?', table.concat(parts, '', math.max(1, #parts - MOST + 1)))
	need('expiry').keep(key, ends, call.now, call.set, ttl)
end

return tokens
