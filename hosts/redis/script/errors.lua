-- What a caller gets to read when a call is refused. A refusal is raised as a table with `sluice`, before anything is
-- written, and caught once, where the call came in.
local errors = {}

function errors.raise(text)
	error({sluice = 'ERR ' .. text}, 0)
end

-- As the server's doors show bytes: quoted, what is not plain text as \x.., cut after `most`.
function errors.shown(text, most)
	most = most or 128
	local cut = text:sub(1, most):gsub('[^\32-\126]', function(c)
		return string.format('\\x%02x', c:byte())
	end)
	return "'" .. cut .. (#text > most and "...'" or "'")
end

function errors.damaged(field, how)
	errors.raise('the key holds a damaged counter: its field ' .. errors.shown(field) .. ' ' .. how ..
		'; SLUICE.RESET forgets it')
end

return errors
