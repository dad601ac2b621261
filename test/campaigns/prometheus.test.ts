import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { codeBlocks, readText } from '../docs/markdown.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { describeWith } from '../support/describe-with.ts'
import { CHAT, fakeLlm, HELLO, llmProxy } from '../support/llm/llm-proxy.ts'
import { dashboardQueries, deployedRules, RULE_FILES } from '../support/prometheus/deployed.ts'
import { missingPrometheus, promtool, ScrapingPrometheus } from '../support/prometheus/prometheus.ts'
import { ask } from '../support/service/http.ts'
import { running, scratchDirectory } from '../support/service/running.ts'
import { until } from '../support/until.ts'

const RATIO = 'job:edge_reject_ratio:rate5m'

describeWith(missingPrometheus, 'Prometheus', () => {
  test('promtool accepts the rules and the example of a configuration', async () => {
    expect(await promtool('check', 'rules', '--lint=all', '--lint-fatal', ...RULE_FILES)).not.toContain('FAILED')
    expect(await promtool('check', 'config', 'prometheus.yml')).toContain('SUCCESS')
  })

  test('every alert fires on the series that it is for, and on no others', async () => {
    expect(await promtool('test', 'rules', 'edge-rules-test.yml')).toContain('SUCCESS')
  })

  test('promtool accepts every query of the dashboard and of docs/metrics.md', async () => {
    const documented = codeBlocks(readText('docs/metrics.md'), 'promql')
    const rules = [...dashboardQueries().map(({ expr }) => expr), ...documented].map((expr, i) => ({ record: `query:number_${i}`, expr }))
    const file = join(await scratchDirectory(), 'queries.yml')
    await writeFile(file, JSON.stringify({ groups: [{ name: 'queries', rules }] }))
    expect(await promtool('check', 'rules', file)).toContain(`SUCCESS: ${rules.length} rules found`)
  })

  test('accepts what edge exposes, evaluates every rule, and answers the queries of the dashboard', async () => {
    const limits = policy('api', { rules: [bucketRule('per-key', ['header:x-api-key'], 3, 0.001)] })
    const edge = await running({ bundle: bundle(1, limits), env: { EDGE_ADMIN_PORT: '0' } })
    const prometheus = await ScrapingPrometheus.start(edge.adminPort)
    const queries = ['Decisions', 'Rejected', 'Workers serving', 'Active bundles', 'Decisions by action', 'Rejects by policy and rule']
    const wanted = dashboardQueries().filter(({ title }) => queries.some((name) => title === `${name} A`))
    const rejected = 'sum(rate(edge_rejects_total{policy="api",rule="per-key",reason="token_bucket_exceeded"}[1m])) > 0'
    expect(wanted).toHaveLength(queries.length)
    const answered = [rejected, RATIO, ...wanted.map(({ expr }) => expr)]
    await until(async () => {
      await edge.decideTimes(10, { uri: '/x', fields: [['X-Api-Key', 'k']] })
      const found = await Promise.all(answered.map((expr) => prometheus.query(expr)))
      return found.every((samples) => samples.length > 0) && (await prometheus.rules()).every(({ health }) => health === 'ok')
    })
    expect(await prometheus.query('up{job="edge"}')).toMatchObject([{ value: [expect.any(Number), '1'] }])
    for (const { title, expr } of dashboardQueries()) await expect(prometheus.query(expr), title).resolves.toBeInstanceOf(Array)
    const rules = await prometheus.rules()
    expect(new Set(rules.map(({ name }) => name))).toEqual(new Set(deployedRules().map(({ record, alert }) => record ?? alert)))
    // Nothing is wrong with this instance.
    expect(rules.filter(({ state }) => state === 'firing')).toEqual([])
    expect((await prometheus.query(RATIO))[0]!.metric).toMatchObject({ job: 'edge' })
  })

  test('finds what the reverse proxy and LLM budgets expose', async () => {
    const proxy = await llmProxy(await fakeLlm(), { env: { EDGE_ADMIN_PORT: '0' } })
    const prometheus = await ScrapingPrometheus.start(proxy.edge.adminPort)
    const body = JSON.stringify({ model: 'gpt-4o', max_tokens: 5, messages: HELLO })
    const titles = [
      'Tokens used A',
      'Reserved, given back, overdrawn A',
      'Responses of the backend A',
      "Time to the response's headers A",
      'In flight A',
    ]
    const wanted = dashboardQueries().filter(({ title }) => titles.includes(title))
    expect(wanted).toHaveLength(titles.length)
    await until(async () => {
      await ask(proxy.edge.port, 'POST', CHAT, [['Content-Type', 'application/json']], body)
      const found = await Promise.all(wanted.map(({ expr }) => prometheus.query(expr)))
      return found.every((samples) => samples.length > 0)
    })
  })
})
