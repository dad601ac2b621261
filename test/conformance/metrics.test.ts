import { afterAll, beforeAll, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { Edge } from '../support/service/edge.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { readSamples, type Sample } from './samples.ts'

/** Specification: Endpoints; GET /metrics. */

const ODD_ID = 'quoted "id" with \\ in it'

let edge: Edge

beforeAll(async () => {
  edge = await Edge.start({
    clock: new ManualClock(),
    bundle: bundle(
      1,
      policy('calls', { selector: { pathPrefix: '/calls' }, rules: [bucketRule('two', ['header:x-caller'], 2)] }),
      policy('trial', { mode: 'shadow', selector: { pathPrefix: '/trial' }, rules: [bucketRule('one', [], 1)] }),
      policy(ODD_ID, { selector: { pathPrefix: '/odd' }, rules: [bucketRule('odd', [], 9)] }),
    ),
  })
})

afterAll(() => edge.stop())

async function scrape(): Promise<string> {
  return (await edge.get('/metrics')).body
}

async function samplesOf(name: string): Promise<Sample[]> {
  return readSamples(await scrape()).filter((sample) => sample.name === name)
}

test('[metrics-1] the answer is 200 with Content-Type text/plain; version=0.0.4', async () => {
  const { status, headers } = await edge.get('/metrics')
  expect([status, headers['content-type']]).toEqual([200, 'text/plain; version=0.0.4'])
})

test('[metrics-2] it is in the text exposition format, whatever stands in a label', async () => {
  await edge.decide({ uri: '/odd' })
  const text = await scrape()
  expect(text.endsWith('\n')).toBe(true)
  const policies = readSamples(text)
    .filter(({ name }) => name === 'edge_decisions_total')
    .map(({ labels }) => labels['policy'])
  expect(policies).toContain(ODD_ID)
})

test('[metrics-3] every metric has one HELP and one TYPE line, before its samples', async () => {
  const described: Record<string, string[]> = {}
  for (const line of (await scrape()).split('\n').filter((text) => text !== '')) {
    const [, kind, family] = /^# (HELP|TYPE) (\S+) \S/.exec(line) ?? []
    if (kind !== undefined) described[family!] = [...(described[family!] ?? []), kind]
    else expect([line, described[familyOf(line, described)]]).toEqual([line, ['HELP', 'TYPE']])
  }
  expect(Object.keys(described)).toEqual(expect.arrayContaining(['edge_decisions_total', 'edge_descriptor_missing_total']))
})

/** A histogram's samples carry its name and an ending. */
function familyOf(line: string, described: Readonly<Record<string, unknown>>): string {
  const name = /^\w+/.exec(line)![0]
  return name in described ? name : name.replace(/_(bucket|sum|count)$/, '')
}

test('[metrics-4] edge_decisions_total is a counter of decisions', async () => {
  expect(await scrape()).toContain('\n# TYPE edge_decisions_total counter\n')
  const allows = 'edge_decisions_total{action="allow",reason="all_rules_passed",policy="calls",route="/calls"}'
  const rejects = 'edge_decisions_total{action="reject",reason="token_bucket_exceeded",policy="calls",route="/calls"}'
  const before = [await edge.metric(allows), await edge.metric(rejects)]
  await edge.decideTimes(3, { uri: '/calls', fields: [['X-Caller', 'ann']] })
  await edge.decideTimes(4, { uri: '/calls', fields: [['X-Caller', 'ben']] })
  expect([await edge.metric(allows), await edge.metric(rejects)]).toEqual([before[0]! + 4, before[1]! + 3])
})

test('[metrics-5] edge_decisions_total has the labels action, reason, policy and route, and no others', async () => {
  await edge.decideTimes(3, { uri: '/calls/7?q=1', fields: [['X-Caller', 'cora']] })
  await edge.decide({ uri: '/nowhere' })
  const samples = await samplesOf('edge_decisions_total')
  expect(new Set(samples.map(({ labels }) => Object.keys(labels).join()))).toEqual(new Set(['action,reason,policy,route']))
})

test('[metrics-6] action is allow or reject; what shadow mode would reject counts as allow', async () => {
  await edge.decideTimes(3, { uri: '/calls', fields: [['X-Caller', 'dan']] })
  await edge.decideTimes(3, { uri: '/trial' })
  const actions = (await samplesOf('edge_decisions_total')).map(({ labels }) => labels['action'])
  expect(new Set(actions)).toEqual(new Set(['allow', 'reject']))
  expect(await edge.metric('edge_decisions_total{action="allow",reason="token_bucket_exceeded",policy="trial",route="/trial"}')).toBe(2)
})

test('[metrics-7] route is the path of the policy, never that of the request', async () => {
  await edge.decide({ uri: '/calls/a/very/special?path', fields: [['X-Caller', 'eve']] })
  await edge.decide({ uri: '/nowhere/special' })
  const routes = new Set((await samplesOf('edge_decisions_total')).map(({ labels }) => `${labels['policy']} ${labels['route']}`))
  expect(routes).toContain('calls /calls')
  expect(routes).toContain('none none')
  expect([...routes].filter((route) => route.includes('special'))).toEqual([])
})

test('[metrics-8] edge_descriptor_missing_total is a counter with the label key, and no other', async () => {
  expect(await scrape()).toContain('\n# TYPE edge_descriptor_missing_total counter\n')
  const before = await edge.metric('edge_descriptor_missing_total{key="header:x-caller"}')
  await edge.decideTimes(2, { uri: '/calls' })
  const samples = await samplesOf('edge_descriptor_missing_total')
  expect(samples.map(({ labels, value }) => [labels, value])).toEqual([[{ key: 'header:x-caller' }, before + 2]])
})
