import type { RedisServer } from './redis-server.ts'

/** The counters that are there, without what probes leave for a millisecond, and what operators share. */
export async function countersIn(redis: RedisServer): Promise<string[]> {
  const keys = (await redis.command('KEYS', '*')) as readonly string[]
  return keys.filter((key) => !key.includes('probe:') && !key.includes('{control}')).sort()
}

/** What a bucket holds, as Redis has it. */
export async function storedBucket(redis: RedisServer, key: string): Promise<{ level: number; atMs: number; expiresMs: number }> {
  const script = `local level, at = struct.unpack('<dd', redis.call('GET', KEYS[1]))
    return { string.format('%.17g', level), string.format('%.17g', at), redis.call('PEXPIRETIME', KEYS[1]) }`
  const [level, atMs, expiresMs] = (await redis.command('EVAL', script, 1, key)) as readonly (string | number)[]
  return { level: Number(level), atMs: Number(atMs), expiresMs: Number(expiresMs) }
}
