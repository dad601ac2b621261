import { load } from 'js-yaml'
import { readText } from '../../docs/markdown.ts'

/** What `deploy/` brings for Prometheus and Grafana. */

export interface Rule {
  readonly record?: string
  readonly alert?: string
  readonly expr: string
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
}

export interface Panel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly datasource?: object
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number }
  readonly targets?: readonly {
    readonly refId: string
    readonly expr: string
    readonly datasource: object
    readonly legendFormat: string
  }[]
}

export interface Variable {
  readonly type: string
  readonly name: string
  readonly definition?: string
}

export interface Dashboard {
  readonly uid: string
  readonly schemaVersion: number
  readonly panels: readonly Panel[]
  readonly templating: { readonly list: readonly Variable[] }
  readonly annotations: { readonly list: readonly { readonly name: string; readonly expr?: string }[] }
}

export const PROMETHEUS = 'deploy/prometheus'
export const RULE_FILES = ['edge-recording-rules.yml', 'edge-alerts.yml']

export function deployedRules(): Rule[] {
  return RULE_FILES.flatMap((file) => {
    const { groups } = load(readText(`${PROMETHEUS}/${file}`)) as { groups: { rules: Rule[] }[] }
    return groups.flatMap(({ rules }) => rules)
  })
}

export function dashboard(): Dashboard {
  return JSON.parse(readText('deploy/grafana/edge-dashboard.json')) as Dashboard
}

/** Every query of the dashboard, as Grafana would send it with all variables at "All". */
export function dashboardQueries({ panels, annotations } = dashboard()): { title: string; expr: string }[] {
  const inPanels = panels.flatMap(({ title, targets = [] }) => targets.map(({ refId, expr }) => ({ title: `${title} ${refId}`, expr })))
  const others = annotations.list.flatMap(({ name, expr }) => (expr === undefined ? [] : [{ title: name, expr }]))
  return [...inPanels, ...others].map(({ title, expr }) => ({ title, expr: withValues(expr) }))
}

function withValues(expr: string): string {
  return expr.replaceAll('$__rate_interval', '1m').replace(/\$(job|instance|policy)\b/g, '.*')
}
