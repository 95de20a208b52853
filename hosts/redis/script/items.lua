-- The items of a call:
--
--   items := item item ...                 at most 16
--   item  := [KEY k] [NAME n] [OBSERVED | TRIED] limit
--
-- and among them the words of asides.lua.
--
-- All keys stand in KEYS, the first of them the one that limits count for until a KEY names another.
local errors, notation = need('errors'), need('notation')

local ITEMS_MOST = 16
local KEY_MOST = 1024
local NAME_MOST = 64

local function check_key(key)
	if #key > KEY_MOST then
		errors.raise('ERR the key that begins ' .. errors.shown(key, 32) .. ' has ' .. #key .. ' bytes: at most ' ..
			KEY_MOST .. ' are allowed')
	end
end

local function no_limit(key)
	errors.raise('ERR no limit for key ' .. errors.shown(key) .. ': expected at least one after it, such as 100/60s')
end

-- The word that a text is, if it is one that may stand in front of a limit: KEY, NAME, OBSERVED, TRIED or an aside.
local function word_of(text)
	if #text < 2 or #text > 8 or text:find('%A') then
		return nil
	end
	local word = text:upper()
	return (word == 'KEY' or word == 'NAME' or word == 'OBSERVED' or word == 'TRIED' or word == 'MEMBER' or
		word == 'UPTO' or word == 'ID' or word == 'AT' or word == 'TERMS' or word == 'KEEP' or word == 'BESIDE') and
		word or nil
end

local function argument(call, word, what)
	call.at = call.at + 2
	return call.args[call.at - 1] or errors.raise('ERR ' .. word .. ' needs ' .. what .. ' after it')
end

-- Goes on to the key that KEY names. What the call has read so far is in `state`: its key, and, by key, whether it is
-- among those that were passed, whether a limit counts for it, and whether one does since KEY named it.
local function next_key(call, state)
	if not state.used[state.key] then
		no_limit(state.key)
	end
	local key = argument(call, 'KEY', 'a key and at least one limit')
	check_key(key)
	if not state.passed[key] then
		errors.raise('ERR KEY ' .. errors.shown(key) .. ': expected one of the keys that the call passes as keys, ' ..
			'so that a cluster finds it')
	end
	state.key, state.used[key] = key, nil
end

-- Reads the words in front of a limit; its name, and OBSERVED or TRIED.
local function read_words(call, state)
	local name, part
	local word = word_of(call.args[call.at])
	while word do
		if word == 'KEY' then
			if name or part then
				errors.raise('ERR KEY behind NAME, OBSERVED or TRIED: expected a limit, and KEY in front of them')
			end
			next_key(call, state)
		elseif word == 'NAME' then
			name = argument(call, 'NAME', 'the name of a limit')
			if #name < 1 or #name > NAME_MOST then
				errors.raise('ERR NAME ' .. errors.shown(name) .. ': expected 1 to ' .. NAME_MOST .. ' bytes')
			end
		elseif word == 'OBSERVED' or word == 'TRIED' then
			call.at = call.at + 1
			part = word
		else
			need('asides').read(call, state)
		end
		local text = call.args[call.at]
		if not text and not name and not part and state.used[state.key] then
			return
		elseif not text then
			if name or part then
				errors.raise('ERR NAME, OBSERVED and TRIED need a limit after them')
			end
			no_limit(state.key)
		end
		word = word_of(text)
	end
	return name, part
end

local function read_item(call, state, number)
	local name, part = read_words(call, state)
	if number > ITEMS_MOST then
		errors.raise('ERR too many limits: at most ' .. ITEMS_MOST .. ' in one request')
	end
	local key, text = state.key, call.args[call.at]
	if not text then
		return
	end
	local limit = notation.usual(text) or need('grammar').limit(text, number)
	call.at = call.at + 1
	state.used[key], state.named[key] = true, true
	state.asks = state.asks or limit.kind == 'N' or limit.kind == 'D'
	local item = {key = key, limit = limit, field = limit.field, holds_field = limit.holds_field, counter = false,
		admits = false, v = false, delay = 0, member = state.member}
	if name and limit.kind ~= 'U' then
		item.field = notation.field_of(limit, name)
		item.holds_field = '!' .. item.field
	end
	if part then
		item.observed, item.tried = true, part == 'TRIED'
	end
	return item
end

-- Reads the items from here to the end.
return function(call, keys)
	local items, args = {}, call.args
	check_key(keys[1])
	if not args[call.at] then
		no_limit(keys[1])
	end
	local state = {key = keys[1], used = {}, named = {}, passed = {}}
	for i = 1, #keys do
		state.passed[keys[i]] = true
	end
	repeat
		items[#items + 1] = read_item(call, state, #items + 1)
	until not args[call.at]
	for i = 1, #keys do
		if not state.named[keys[i]] then
			no_limit(keys[i])
		end
	end
	if state.asks then
		local whose = need('whose')
		for i = 1, #items do
			items[i].member = items[i].member or state.first_member
			whose.check(call.word, items[i], i)
		end
	end
	call.items = items
end
