import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Script } from './link/script.ts'

/** The script of each decision. `clock`: the Lua text that reads the time. */
export function counterScript(clock = asset('clock.lua')): Script {
  const text = `${clock}\n${asset('counters.lua')}`
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}

function asset(name: string): string {
  return readFileSync(new URL(`../../../assets/redis/${name}`, import.meta.url), 'utf8')
}
