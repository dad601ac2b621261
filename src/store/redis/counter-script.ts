import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Script } from './link/script.ts'

/** What Redis runs for each decision. `clock`: where it gets the time from. */
export function counterScript(clock = asset('clock.lua')): Script {
  const text = `${clock}\n${asset('counters.lua')}`
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}

function asset(name: string): string {
  return readFileSync(new URL(`../../../assets/redis/${name}`, import.meta.url), 'utf8')
}
