import { expect, test } from 'vitest'
import { dashboard } from '../support/prometheus/deployed.ts'

const { uid, schemaVersion, panels, templating } = dashboard()
const COLUMNS = 24

test('the dashboard can be loaded by Grafana 10: an id each, a source of data, and a query in every panel but rows', () => {
  expect(uid).toMatch(/^[a-z-]{1,40}$/)
  expect(schemaVersion).toBeGreaterThanOrEqual(36)
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length)
  const source = { type: 'prometheus', uid: `\${datasource}` }
  for (const { type, title, datasource, targets = [] } of panels) {
    expect(title).not.toBe('')
    if (type === 'row') continue
    expect(['timeseries', 'stat', 'table']).toContain(type)
    expect(datasource).toEqual(source)
    expect(targets.length).toBeGreaterThan(0)
    expect(new Set(targets.map(({ refId }) => refId)).size).toBe(targets.length)
    for (const target of targets) expect(target.datasource).toEqual(source)
  }
})

test('panels are inside the grid and do not overlap', () => {
  const taken = new Map<string, string>()
  for (const { title, gridPos } of panels) {
    const { x, y, w, h } = gridPos
    expect(x + w, title).toBeLessThanOrEqual(COLUMNS)
    for (let column = x; column < x + w; column++) {
      for (let line = y; line < y + h; line++) {
        expect(taken.get(`${column},${line}`), `${title} overlaps`).toBeUndefined()
        taken.set(`${column},${line}`, title)
      }
    }
  }
})

test('queries use the variables that there are, and no others', () => {
  const names = templating.list.map(({ name }) => name)
  expect(names).toEqual(['datasource', 'job', 'instance', 'policy'])
  const text = JSON.stringify(panels)
  for (const name of names.slice(1)) expect(text).toContain(`$${name}`)
  const used = text.matchAll(/\$\{?(\w+)/g)
  for (const [, name] of used) expect([...names, '__rate_interval']).toContain(name)
})

test('what the usage log lacks can be seen: lines by the reason, and what they were charged', () => {
  const queries = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
  for (const metric of [
    'edge_usage_lines_written_total',
    'edge_usage_lines_lost_total',
    'edge_usage_waiting_lines',
    'edge_usage_lost_tokens_total',
    'edge_usage_lost_cost_total',
  ])
    expect(
      queries.some((query) => query.includes(`${metric}{`)),
      metric,
    ).toBe(true)
})
