-- Words that may stand anywhere among the limits of a call:
--
--   MEMBER m    who is counted by the distinct limits behind it, until the next one; the first also by those before it
--   UPTO        grant the largest part of the cost that is admitted
--   ID token    a retry by the same token is charged once; of ACQUIRE the lease's name
--   AT ms       the instant, before the first limit
--   KEEP        what is not charged of a hold stays held
--   BESIDE id   decide as if there were no hold of that id
local errors = need('errors')
local asides = {}
local ID_MOST, MEMBER_MOST = 64, 1024

local function once(call, what, value)
	if call[what] then
		errors.raise('ERR ' .. what:upper() .. ' twice: expected it once')
	end
	call[what] = value
end

local function at(call, state)
	if call.set or next(state.named) then
		errors.raise(next(state.named) and 'ERR AT behind a limit: expected it before the first one' or
			'ERR AT twice: expected it once')
	end
	call.us = 0
	need('words').clock(call)
end

-- Reads the aside that stands next; false where there is none. `state` is that of items.lua.
function asides.read(call, state)
	local word = call.args[call.at]:upper()
	local taken = call.takes or {}
	if word == 'TERMS' then
		errors.raise('ERR TERMS: penalties and count-denied need the module or a server: a script has none')
	elseif word == 'AT' then
		at(call, state)
		return true
	elseif word ~= 'MEMBER' and word ~= 'UPTO' and word ~= 'ID' and word ~= 'KEEP' and word ~= 'BESIDE' then
		return false
	elseif not taken[word] then
		errors.raise('ERR ' .. word .. ' is no word of ' .. (call.word or 'this command'))
	end
	call.at = call.at + 1
	if word == 'UPTO' or word == 'KEEP' then
		once(call, word:lower(), true)
		return true
	elseif word == 'BESIDE' then
		once(call, 'beside', need('holding').read_id(call))
		return true
	end
	local text = call.args[call.at]
	if not text or #text > (word == 'ID' and ID_MOST or MEMBER_MOST) or word == 'ID' and #text == 0 then
		errors.raise('ERR ' .. word .. ': expected ' .. (word == 'ID' and '1 to 64' or 'at most 1024') ..
			' bytes after it')
	end
	call.at = call.at + 1
	if word == 'ID' then
		once(call, 'id', text)
	else
		state.member = need('whose').member(text)
		state.first_member = state.first_member or state.member
	end
	return true
end

return asides
