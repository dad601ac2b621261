import { Random } from '../../random/random.ts'
import { cut } from './cuts.ts'
import { damagedRequest } from './damaged-requests.ts'
import { stalledRequest, validRequest } from './proxied-requests.ts'
import { PROBE, type Step, type Talk } from './talk.ts'

export interface RandomTalk extends Talk {
  readonly requests: number
}

/** What a client says on one connection, whole requests first. */
export function randomTalk(seed: number): RandomTalk {
  const random = new Random(seed)
  // No other talk's caller is a few bytes away.
  const caller = `k${Math.floor(random.next() * 2 ** 32).toString(36)}-${seed.toString(36)}`
  const steps: Step[] = []
  let requests = 0
  const usual = 1 + random.below(5)
  for (let i = 0; i < usual; i++) {
    const pipeline = Array.from({ length: random.below(3) === 0 ? 1 + random.below(6) : 1 }, () => validRequest(random, caller))
    const last = pipeline.findIndex(({ isLast }) => isLast)
    const sent = last < 0 ? pipeline : pipeline.slice(0, last + 1)
    requests += sent.length
    steps.push({ pieces: pieces(random, sent.map(({ text }) => text).join('')), methods: sent.map(({ method }) => method) })
    if (last >= 0) return { steps, requests, ending: 'end' }
  }
  if (random.below(12) === 0) {
    steps.push({ pieces: pieces(random, stalledRequest(random, caller).text), methods: undefined })
    return { steps, requests: requests + 1, ending: 'reset' }
  }
  const damaged = Array.from({ length: 1 + random.below(3) }, () => damagedRequest(random, caller))
  for (const text of [...damaged, PROBE]) steps.push({ pieces: pieces(random, text), methods: undefined })
  return { steps, requests: requests + damaged.length + 1, ending: 'end' }
}

function pieces(random: Random, text: string): string[] {
  return cut(random, text, random.oneOf([0, 0, 1, 2, 6]))
}
