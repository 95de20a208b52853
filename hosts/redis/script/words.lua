-- The words of a call, as docs/design/011-redis.md lists them, checked before anything is read or written:
--
--   key [cost | id ...] [AT ms] [EACH] items
--   items := item item ...                 at most 16
--   item  := [KEY k] [NAME n] [OBSERVED | TRIED] limit
--
-- All keys stand in KEYS, the first of them the one that limits count for until a KEY names another.
local numbers, errors, notation, counter = need('numbers'), need('errors'), need('notation'), need('counter')
local words = {}

local ITEMS_MOST = 16
local KEY_MOST = 1024
local NAME_MOST = 64
local AT_MOST = 9223372036854
local CACHE_MOST = 1024

-- Limits read before, where the library stays between calls: their text and number, nothing that a call changes.
local cache, cached = {}, 0

local function limit_of(text, number)
	local limit = cache[text]
	if not limit then
		limit = notation.parse(text, number)
		limit.field = limit.kind ~= 'U' and counter.field(limit) or nil
		if cached >= CACHE_MOST then
			cache, cached = {}, 0
		end
		cache[text], cached = limit, cached + 1
	end
	return limit
end

function words.number(reader, what, least, most)
	local text = reader.args[reader.at]
	local n = numbers.read(text, least, most)
	if not n then
		errors.raise('ERR ' .. what .. ' ' .. (text and errors.shown(text) or 'is missing') ..
			': expected a whole number from ' .. numbers.text(least) .. ' to ' .. numbers.text(most))
	end
	reader.at = reader.at + 1
	return n
end

-- The id of a hold, as it is kept: 16 digits.
function words.id(reader)
	local text = reader.args[reader.at]
	if not text or #text < 1 or #text > 16 or not text:find('^%x+$') then
		errors.raise('ERR id ' .. (text and errors.shown(text) or 'is missing') .. ': expected 1 to 16 hex digits')
	end
	reader.at = reader.at + 1
	return ('0'):rep(16 - #text) .. text:lower()
end

-- The instant of the call: the server's, or what AT says.
function words.clock(reader)
	local word = reader.args[reader.at]
	if word and #word == 2 and word:lower() == 'at' then
		if not CLIENT_TIME then
			errors.raise('ERR AT is not allowed here: load the script that was built with --client-time')
		end
		reader.at = reader.at + 1
		return {now = words.number(reader, 'AT', 0, AT_MOST), us = 0, set = true}
	end
	local time = redis.call('TIME')
	local us = tonumber(time[2])
	local ms = math.floor(us / 1000)
	return {now = tonumber(time[1]) * 1000 + ms, us = us - ms * 1000, set = false}
end

function words.each(reader)
	local word = reader.args[reader.at]
	if word and #word == 4 and word:lower() == 'each' then
		reader.at = reader.at + 1
		return true
	end
	return false
end

local function check_key(key)
	if #key > KEY_MOST then
		errors.raise('ERR the key that begins ' .. errors.shown(key, 32) .. ' has ' .. #key .. ' bytes: at most ' ..
			KEY_MOST .. ' are allowed')
	end
end

local function no_limit(key)
	errors.raise('ERR no limit for key ' .. errors.shown(key) .. ': expected at least one after it, such as 100/60s')
end

-- The word in front of a limit that stands here, if one does: KEY, NAME, OBSERVED or TRIED.
local function word_at(reader)
	local text = reader.args[reader.at]
	if #text < 3 or #text > 8 or text:find('[^%a]') then
		return nil
	end
	local word = text:upper()
	return (word == 'KEY' or word == 'NAME' or word == 'OBSERVED' or word == 'TRIED') and word or nil
end

local function argument(reader, word, what)
	reader.at = reader.at + 2
	return reader.args[reader.at - 1] or errors.raise('ERR ' .. word .. ' needs ' .. what .. ' after it')
end

-- Reads one item, and the KEY in front of it; state is {key, used (keys with limits), keys}.
local function read_item(reader, state, number)
	local item, name = {}, nil
	while reader.args[reader.at] do
		local word = word_at(reader)
		if not word then
			break
		elseif word == 'KEY' then
			if name or item.observed then
				errors.raise('ERR KEY behind NAME, OBSERVED or TRIED: expected a limit, and KEY in front of them')
			elseif not state.used[state.key] then
				no_limit(state.key)
			end
			state.key = argument(reader, 'KEY', 'a key and at least one limit')
			check_key(state.key)
			state.used[state.key] = nil
			if not state.keys[state.key] then
				errors.raise('ERR KEY ' .. errors.shown(state.key) .. ': expected one of the keys that the call ' ..
					'passes as keys, so that a cluster finds it')
			end
		elseif word == 'NAME' then
			name = argument(reader, 'NAME', 'the name of a limit')
			if #name < 1 or #name > NAME_MOST then
				errors.raise('ERR NAME ' .. errors.shown(name) .. ': expected 1 to ' .. NAME_MOST .. ' bytes')
			end
		else
			reader.at = reader.at + 1
			item.observed, item.tried = true, word == 'TRIED'
		end
	end
	local text = reader.args[reader.at]
	if not text then
		if name or item.observed then
			errors.raise('ERR NAME, OBSERVED and TRIED need a limit after them')
		end
		no_limit(state.key)
	end
	if number > ITEMS_MOST then
		errors.raise('ERR too many limits: at most ' .. ITEMS_MOST .. ' in one request')
	end
	reader.at = reader.at + 1
	item.key, item.limit = state.key, limit_of(text, number)
	state.used[state.key], state.named[state.key] = true, true
	item.field = name and item.limit.kind ~= 'U' and counter.field(item.limit, name) or item.limit.field
	return item
end

-- The items from here to the end; most calls have one limit, and no word in front of it.
function words.items(reader, keys)
	check_key(keys[1])
	if #keys == 1 and reader.at == #reader.args and not word_at(reader) then
		local limit = limit_of(reader.args[reader.at], 1)
		return {{key = keys[1], limit = limit, field = limit.field}}
	end
	local state, items = {key = keys[1], used = {}, named = {}, keys = {}}, {}
	for _, key in ipairs(keys) do
		state.keys[key] = true
	end
	repeat
		items[#items + 1] = read_item(reader, state, #items + 1)
	until not reader.args[reader.at]
	for _, key in ipairs(keys) do
		if not state.named[key] then
			no_limit(key)
		end
	end
	return items
end

return words
