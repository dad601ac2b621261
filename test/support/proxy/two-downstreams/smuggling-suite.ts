import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectSame } from './comparison.ts'
import { DownstreamPair } from './downstream-pair.ts'
import { SMUGGLING } from './smuggling-vectors.ts'
import { oddTalk } from './talk.ts'

/** Plays every trick on both of them. */
export function smugglingSuite(): void {
  let pair: DownstreamPair
  beforeAll(async () => {
    pair = await DownstreamPair.start()
  })
  afterAll(() => pair.stop())

  test.each(['in one piece', 'byte by byte'])(
    'no smuggled request reaches the backend undecided: %s',
    { timeout: 300_000 },
    async (way) => {
      for (const { what, bytes, isRefused } of SMUGGLING) {
        const before = pair.sides.map(({ edge }) => edge.log.length)
        // A line a second is logged.
        for (const { clock } of pair.sides) clock.advance(2000)
        const { effects } = await expectSame(pair, [oddTalk(way === 'in one piece' ? [bytes] : [...bytes.slice(0, 300)])])
        expect([what, effects.rubbish]).toEqual([what, []])
        expect({ what, undecided: effects.requests.slice(effects.counts[ALLOWED] ?? 0) }).toEqual({ what, undecided: [] })
        const [own, node] = pair.sides.map(({ edge }, i) =>
          // Each wire has its own words for what is wrong in the middle of a body.
          edge.log.slice(before[i]).map(({ event, reason, detail }) => ({ event, reason, ...(isRefused && { detail }) })),
        )
        expect({ what, log: own }).toEqual({ what, log: node })
      }
    },
  )
}

const ALLOWED = 'edge_questions_total{door="proxy",outcome="allow"}'
