-- Counters of which a call has several, or more fields than one: read with one HMGET a key, written with one HSET.
local counter = need('counter')
local several = {}
local FIELDS_MOST = 1000

-- Reads the counters of one key, that of items[from], behind those that are in `counters`.
local function load_key(items, counters, from, now)
	local key, fields, by_field, first = items[from].key, {}, {}, #counters
	for i = from, #items do
		local item = items[i]
		local field = item.field
		if field and item.key == key then
			local c = by_field[field]
			if not c then
				c = counter.new(key, field, item.limit)
				by_field[field] = c
				counters[#counters + 1] = c
				fields[#fields + 1] = field
				fields[#fields + 1] = item.holds_field
			end
			item.counter = c
		end
	end
	local raw = redis.pcall('HMGET', key, unpack(fields))
	if raw.err then
		error({sluice = raw.err}, 0)
	end
	for i = first + 1, #counters do
		local at = 2 * (i - first)
		counter.open(counters[i], raw[at - 1], raw[at], now)
	end
end

-- Reads the counters of all items, those of one key together.
function several.load(items, counters, now)
	for i = 1, #items do
		if items[i].field and not items[i].counter then
			load_key(items, counters, i, now)
		end
	end
end

-- Many fields, in pieces that fit Lua's stack.
function several.delete(key, fields)
	for from = 1, #fields, FIELDS_MOST do
		redis.call('HDEL', key, unpack(fields, from, math.min(from + FIELDS_MOST - 1, #fields)))
	end
end

local function write(call, key, fields)
	for from = 1, #fields, FIELDS_MOST do
		need('room').write(call, key, unpack(fields, from, math.min(from + FIELDS_MOST - 1, #fields)))
	end
end

-- Writes what was changed of the counters counters[from..upto], which are of one key, and keeps the key until they
-- matter no more.
local function save_key(counters, from, upto, call)
	local key, fields, gone, ends = counters[from].key, {}, {}, 0
	for i = from, upto do
		local c = counters[i]
		if c.changed or c.taken then
			local way, s, written = c.limit.way, c.s, #fields
			local until_then
			if c.charged then
				fields[written + 1], fields[written + 2] = c.field, way.encode(s)
				if way.changes then
					way.changes(s, fields, gone)
				end
			end
			if c.holds or c.raw_holds then
				until_then = need('holds').save(c, fields, gone)
			else
				until_then = way.ends(c.limit, s)
			end
			if #fields > written and until_then ~= c.ends and until_then > ends then
				ends = until_then
			end
		end
	end
	write(call, key, fields)
	several.delete(key, gone)
	if ends > 0 then
		need('expiry')(key, ends, call.now, call.set)
	end
end

-- Writes what was changed of the counters of a call.
function several.save(counters, call)
	local from, count = 1, #counters
	for i = 1, count do
		if i == count or counters[i + 1].key ~= counters[i].key then
			save_key(counters, from, i, call)
			from = i + 1
		end
	end
end

return several
