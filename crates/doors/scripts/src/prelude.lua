-- What scripts see: globals that they cannot change, and errors as Redis gives them. A state runs one script, so what a script may still spoil is its own.
local native = ...
local error, next, rawget, rawset, select, tostring, type, unpack = error, next, rawget, rawset, select, tostring, type, unpack
local raw_getmetatable, raw_setmetatable, raw_pcall, raw_xpcall = getmetatable, setmetatable, pcall, xpcall
local is_stopped, unwrap, line_of = native.is_stopped, native.unwrap, native.line

local READ_ONLY = "Attempt to modify a readonly table"

-- Tables that only can be read, each with what it shows.
local under = raw_setmetatable({}, { __mode = "k" })
local function freeze(shown, metatable)
    local frozen = {}
    under[frozen] = shown
    return raw_setmetatable(frozen, {
        __index = shown,
        __newindex = function() error(READ_ONLY, 2) end,
        __metatable = metatable or freeze({}, {}),
    })
end

-- Errors of native functions come as values that mean nothing to a script.
local function plain(err)
    if type(err) == "userdata" then return unwrap(err) end
    return err
end

local function resumed(ok, ...)
    if ok then return true, ... end
    return false, plain((...))
end

-- Lua 5.1 has no room for the first result of a protected call behind many others. So they come in one table.
local function pack(...) return { n = select("#", ...), ... } end
local function packed(body, ...) return pack(body(...)) end

local function called(ok, result)
    if ok then return true, unpack(result, 1, result.n) end
    local err = plain(result)
    if type(err) == "table" and type(rawget(err, "err")) == "string" then return false, rawget(err, "err") end
    return false, err
end

local function check_table(value, name, ...)
    if type(value) ~= "table" then
        local got = select("#", ...) == 0 and "no value" or type(value)
        error("bad argument #1 to '" .. name .. "' (table expected, got " .. got .. ")", 3)
    end
end

local globals = {
    _VERSION = _VERSION,
    assert = assert, collectgarbage = collectgarbage, error = error, gcinfo = gcinfo, ipairs = ipairs, rawequal = rawequal,
    select = select, tonumber = tonumber, tostring = tostring, type = type, unpack = unpack,
    load = native.load, loadstring = native.loadstring,
    KEYS = native.keys, ARGV = native.arguments,
}

function globals.pcall(...)
    if select("#", ...) == 0 then error("bad argument #1 to 'pcall' (value expected)", 2) end
    return called(raw_pcall(packed, ...))
end

-- A handler of a script that is to end would run where no hook can end it.
function globals.xpcall(body, handler)
    local ok, result = raw_xpcall(function() return pack(body()) end, function(err)
        if is_stopped() then return err end
        return handler(plain(err))
    end)
    if ok then return true, unpack(result, 1, result.n) end
    return false, result
end

function globals.pairs(...)
    local value = ...
    check_table(value, "pairs", ...)
    return globals.next, value, nil
end

function globals.next(...)
    local value, key = ...
    check_table(value, "next", ...)
    return next(under[value] or value, key)
end

function globals.rawget(...)
    local value, key = ...
    check_table(value, "rawget", ...)
    return rawget(under[value] or value, key)
end

function globals.rawset(...)
    local value, key, to = ...
    check_table(value, "rawset", ...)
    if under[value] then error(READ_ONLY, 0) end
    return rawset(value, key, to)
end

function globals.setmetatable(...)
    local value, metatable = ...
    check_table(value, "setmetatable", ...)
    if under[value] then error(READ_ONLY, 0) end
    return raw_setmetatable(value, metatable)
end

globals.getmetatable = raw_getmetatable

local function copy(from)
    local to = {}
    for name, value in next, from do to[name] = value end
    return to
end

local strings = copy(string)
for name, value in next, native.strings do strings[name] = value end
globals.string = freeze(strings)
local of_strings = raw_getmetatable("")
of_strings.__index = strings
of_strings.__metatable = freeze({ __index = globals.string })

-- The comparisons are code of Lua, so that they are counted: sorting may take the square of the length.
local tables, sort = copy(table), table.sort
function tables.sort(values, is_before)
    if is_before == nil then
        return sort(values, function(one, other) return one < other end)
    end
    if type(is_before) ~= "function" then return sort(values, is_before) end
    return sort(values, function(one, other)
        local is = is_before(one, other)
        return is
    end)
end
globals.table = freeze(tables)

local numbers = copy(math)
numbers.random, numbers.randomseed = native.random, native.randomseed
globals.math = freeze(numbers)

local coroutines, resume = copy(coroutine), coroutine.resume
function coroutines.resume(...) return resumed(resume(...)) end
globals.coroutine = freeze(coroutines)

globals.redis = freeze(native.redis)
globals.bit = freeze(native.bit)
globals.cjson = freeze(native.cjson)
globals.cmsgpack = freeze(native.cmsgpack)
globals.struct = freeze(native.struct)

local environment = freeze(globals)
globals._G = environment
raw_setmetatable(globals, {
    __index = function(_, name)
        error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
    end,
})

local function handler(err)
    if is_stopped() then return err end
    err = plain(err)
    local line = line_of()
    if type(err) == "table" then return { err = rawget(err, "err"), line = line } end
    return { err = "ERR " .. tostring(err), line = line }
end

-- A function of a library gets its keys and arguments; scripts find theirs among the globals.
return environment, function(script, keys, arguments)
    if not keys then return raw_xpcall(script, handler) end
    return raw_xpcall(function() return script(keys, arguments) end, handler)
end
