import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { setImmediate as turn } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { Random } from '../random/random.ts'

/** How a response is framed and what is done with it on its way: `X-Kind` of a request asks for one. */
export const KINDS = ['counted', 'chunked', 'endless', 'events', 'filtered', 'spliced', 'compressed', 'beside'] as const
export type Kind = (typeof KINDS)[number]

/** Text that does not repeat within what compression looks back at. */
const NOISE = noise(96 * 1024)

/** So many events of 1 KiB that nobody else gets: `owner` is in each. */
export function patternOf(owner: string, events: number): string {
  return Array.from({ length: events }, (_, i) => eventOf(`${owner} ${i} `, i)).join('')
}

/** Responds with the pattern of this owner, in pieces of any size, so that events are split anywhere. */
export async function sendPattern(res: ServerResponse, kind: Kind, owner: string, events: number, random: Random): Promise<void> {
  const text = Buffer.from(patternOf(owner, events))
  const bytes = kind === 'compressed' ? gzipSync(text) : text
  res.setHeader('Content-Type', kind === 'counted' || kind === 'chunked' || kind === 'endless' ? 'text/plain' : 'text/event-stream')
  if (kind === 'counted') res.setHeader('Content-Length', bytes.length)
  if (kind === 'compressed') res.setHeader('Content-Encoding', 'gzip')
  if (kind === 'endless') {
    res.useChunkedEncodingByDefault = false
    res.shouldKeepAlive = false
  }
  for (let from = 0; from < bytes.length && !res.destroyed; ) {
    const to = from + 1 + random.below(random.oneOf([10, 2000, 40_000]))
    if (!res.write(bytes.subarray(from, to))) await once(res, 'drain')
    else if (random.next() < 0.2) await turn()
    from = to
  }
  res.end()
}

/** A chat chunk of 1 KiB whose content begins so. */
function eventOf(start: string, index: number): string {
  const begin = `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"${start}`
  const rest = '"},"finish_reason":null}]}\n\n'
  const from = (index * 1024) % (NOISE.length - 1024)
  return begin + NOISE.slice(from, from + 1024 - begin.length - rest.length) + rest
}

function noise(characters: number): string {
  const random = new Random(3)
  return Buffer.from(Array.from({ length: characters }, () => random.below(256)))
    .toString('base64')
    .slice(0, characters)
}
