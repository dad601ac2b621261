-- The time of the Redis server, in ms. All instances use this clock instead of their own.
local time = redis.call('TIME')
local wall = time[1] * 1000 + time[2] / 1000
local now = wall
