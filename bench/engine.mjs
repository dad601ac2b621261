// `npm run bench:engine`: the engine alone, in one thread, on the embedded store. With `--against DIR`, another built checkout, it is compared
// with that one: `npm run bench:engine -- --against ../edge-before --pairs 21` (the default) takes about five minutes.
import { parseArgs } from 'node:util'
import { comparePairs } from './engine/pairs.mjs'
import { measureInTurns } from './engine/turns.mjs'

const { against, pairs } = parseArgs({ options: { against: { type: 'string' }, pairs: { type: 'string', default: '21' } } }).values
if (!(Number.isInteger(Number(pairs)) && Number(pairs) > 0)) throw new Error('--pairs needs a whole number above 0')
if (against === undefined) await measureInTurns()
else await comparePairs(against, Number(pairs))
