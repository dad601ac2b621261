import { createHash } from 'node:crypto'
import { assetText } from '../../asset.ts'
import type { Script } from './link/script.ts'

/** The script of each decision. `clock`: the Lua text that reads the time. */
export function counterScript(clock = assetText('redis/clock.lua')): Script {
  const text = `${clock}\n${assetText('redis/counters.lua')}`
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}
