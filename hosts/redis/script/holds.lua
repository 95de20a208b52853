-- What is held of a counter: cost that no one else gets, until it is charged, dropped or its time has passed. A hold
-- that ends is forgotten; a lease, which a front spends from, is charged in full at its end, for what was spent of it
-- is not known. The ids of the two are apart. Kept beside the counter, in the field "!" and its name, ordered by end
-- (then by id, so that the order is the same wherever it is made): 29 bytes each.
local numbers, errors = need('numbers'), need('errors')
local holds = {most = 256}
local BYTES = 29

function holds.decode(raw)
	if #raw % BYTES ~= 0 then
		return nil
	end
	local list = {}
	for at = 1, #raw, BYTES do
		local ends, cost, lease, id = struct.unpack('<dI4Bc16', raw, at)
		if not numbers.sound(ends) then
			return nil
		end
		list[#list + 1] = {ends = ends, cost = cost, lease = lease == 1, id = id}
	end
	return list
end

function holds.encode(list)
	local parts = {}
	for i, one in ipairs(list) do
		parts[i] = struct.pack('<dI4Bc16', one.ends, one.cost, one.lease and 1 or 0, one.id)
	end
	return table.concat(parts)
end

-- Removes the hold (or lease) of an id and returns it, or nil.
function holds.remove(list, id, lease)
	for i, one in ipairs(list) do
		if one.id == id and one.lease == lease then
			return table.remove(list, i)
		end
	end
end

local function before(a, b)
	if a.ends ~= b.ends then
		return a.ends < b.ends
	end
	return a.id < b.id or a.id == b.id and b.lease and not a.lease
end

function holds.insert(list, one)
	if #list >= holds.most then
		errors.raise('ERR too many holds on one counter: at most ' .. holds.most)
	end
	local at = #list + 1
	while at > 1 and before(one, list[at - 1]) do
		at = at - 1
	end
	table.insert(list, at, one)
end

function holds.sum(list)
	local sum = 0
	for _, one in ipairs(list) do
		sum = sum + one.cost
	end
	return sum
end

return holds
