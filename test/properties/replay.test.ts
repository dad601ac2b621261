import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { ReplayReport } from '../../src/offline/replay/replay-report.ts'
import { Random } from '../support/random/random.ts'
import { LimitModel, type ModelLimits, type ModelReject, modelPolicy } from '../support/replay/limit-model.ts'
import { LOG_WRITERS, type Logged } from '../support/replay/log-writers.ts'
import { replayed } from '../support/replay/replaying.ts'
import { runs } from '../support/run/property-runs.ts'

/** 2 ** -10 of a token each millisecond. */
const RATE = 1000 / 1024

const limits = fc.record({
  tokensPerSecond: fc.constantFrom(RATE, RATE / 2, RATE / 64),
  burst: fc.integer({ min: 1, max: 8 }),
  quota: fc.integer({ min: 1, max: 30 }),
})
const formats = fc.constantFrom(...(['json', 'nginxJson', 'combined', 'har', 'gzip'] as const))

test('counts of random logs, in any format and cut into files, are those of the model', async () => {
  const property = fc.asyncProperty(
    fc.nat(),
    limits,
    limits,
    fc.array(formats, { minLength: 1, maxLength: 3 }),
    async (seed, a, b, files) => {
      const log = randomLog(new Random(seed))
      // Requests of one second stay together: files have no order among themselves.
      const parts = files.map((format, i) => ({
        name: `${i}.log`,
        format,
        log: log.filter(({ timeMs }) => (timeMs / 1000) % files.length === i),
      }))
      const logs = Object.fromEntries(parts.map(({ name, format, log: own }) => [name, LOG_WRITERS[format](own)]))
      const report = await replayed({ 'a.json': [modelPolicy(a)], 'b.json': [modelPolicy(b)], ...logs }, [
        '--bundle',
        'a.json',
        '--bundle',
        'b.json',
        ...parts.map(({ name }) => name),
      ])
      expect(countsOf(report)).toEqual(modelCounts(log, a, b))
    },
  )
  await fc.assert(property, { numRuns: runs(1) })
})

type Verdicts = (ModelReject | undefined)[]

function randomLog(random: Random): Logged[] {
  const log: Logged[] = []
  let timeMs = Date.parse('2026-03-01T00:00:30Z')
  for (let i = 0; i < 300; i++) {
    if (random.next() < 0.4) timeMs += 1000 * random.below(random.next() < 0.1 ? 90 : 4)
    const headers: Record<string, string> = {}
    if (random.next() < 0.9) headers['referer'] = `https://${random.oneOf(['a', 'b', 'c'])}.example/`
    if (random.next() < 0.9) headers['user-agent'] = random.oneOf(['curl/8', 'Mozilla/5.0 (X11)'])
    log.push({ timeMs, uri: random.next() < 0.9 ? '/api/x?y=1' : '/', headers })
  }
  return log
}

function modelCounts(log: readonly Logged[], a: ModelLimits, b: ModelLimits): object {
  const [first, second] = [a, b].map((limits) => {
    const model = new LimitModel(limits)
    return log.map((request) => model.decide(request))
  }) as [Verdicts, Verdicts]
  const [newlyRejected, newlyAllowed]: [string[], string[]] = [[], []]
  for (const [i, before] of first.entries()) {
    const after = second[i]
    if (before === undefined && after !== undefined) newlyRejected.push(`${after.rule} ${after.caller}`)
    if (before !== undefined && after === undefined) newlyAllowed.push(`${before.rule} ${before.caller}`)
  }
  return {
    requests: log.length,
    bundles: [first, second].map((verdicts) => {
      const rejects = verdicts.filter((verdict) => verdict !== undefined)
      return { rejected: rejects.length, callers: tally(rejects.map(({ rule, caller }) => `${rule} ${caller}`)) }
    }),
    newlyRejected: tally(newlyRejected),
    newlyAllowed: tally(newlyAllowed),
  }
}

function countsOf({ requests, bundles, difference }: ReplayReport): object {
  const named = (rule: string, values: Readonly<Record<string, string>>): string => `${rule} ${Object.values(values)[0]}`
  const changes = (member: 'newly_rejected' | 'newly_allowed'): object =>
    Object.fromEntries(
      difference!.callers.filter((caller) => caller[member] > 0).map((caller) => [named(caller.rule, caller.values), caller[member]]),
    )
  return {
    requests,
    bundles: bundles.map(({ rejected, rules }) => ({
      rejected,
      callers: Object.fromEntries(
        rules.flatMap(({ rule, callers }) => callers.map((caller) => [named(rule, caller.values), caller.rejected])),
      ),
    })),
    newlyRejected: changes('newly_rejected'),
    newlyAllowed: changes('newly_allowed'),
  }
}

function tally(names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1
  return counts
}
