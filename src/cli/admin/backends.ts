import { parseArgs } from 'node:util'
import type { BackendJson, BackendsJson, CoolingModel, RouteChoiceJson, RouteJson } from '../../admin/api/backend-types.ts'
import { UsageProblem } from '../text/caller-values.ts'
import { countText, listText, numberText, tableText } from '../text/text-table.ts'
import { ACTOR_OPTION, type AdminCommand, type AdminQuestion, actorFlag, JSON_OPTION, reasonFlag } from './admin-command.ts'
import { BACKENDS_HELP } from './help.ts'

export const backends: AdminCommand = {
  name: 'backends',
  help: BACKENDS_HELP,
  read(args) {
    const options = { ...JSON_OPTION, ...ACTOR_OPTION, reason: { type: 'string' } } as const
    const { values, positionals } = parseArgs({ args, options, allowPositionals: true })
    const [action, name, ...others] = positionals
    const { json: isJson, actor, reason } = values
    if (action === 'retry' && name !== undefined && others.length === 0) return retrying(name, reasonFlag(reason), actorFlag(actor), isJson)
    if (action === 'retry') throw new UsageProblem('retry: expected the name of one backend')
    if (action !== undefined) throw new UsageProblem(`expected nothing, or retry NAME, got ${JSON.stringify(action)}`)
    if (actor !== undefined || reason !== undefined) throw new UsageProblem('--actor and --reason are for retry NAME')
    return { request: { method: 'GET', path: 'backends' }, isJson, describe: backendsText }
  },
}

function retrying(name: string, reason: string, actor: string | undefined, isJson: boolean): AdminQuestion {
  const path = `backends/${encodeURIComponent(name)}/retry`
  const describe = (backend: BackendJson): string => `The next request tries it, at this instance.\n\n${listText(rowsOf(backend), '')}`
  return { request: { method: 'POST', path, body: { reason } }, actor, isJson, describe }
}

const COLUMNS = [
  { head: 'BACKEND' },
  { head: 'CONNECTIONS', isNumber: true },
  { head: 'WAITING', isNumber: true },
  { head: 'ROUTES' },
  { head: 'STATE' },
]

function backendsText({ backends: list, default: last, routes, routes_in_all: inAll }: BackendsJson): string {
  const rows = list.map((backend) => [
    backend.name,
    `${numberText(backend.connections)} of ${numberText(backend.max_connections)}`,
    numberText(backend.queue),
    numbersText(backend.routes),
    [stateText(backend), ...backend.cooling_models.map(modelText)].join('; '),
  ])
  const table = list.length === 0 ? 'No route of the active bundle is in use.\n' : tableText(COLUMNS, rows)
  const more = inAll > routes.length ? `  and ${numberText(inAll - routes.length)} more routes\n` : ''
  const listed = routes.length === 0 ? '' : `\n${listText(routes.map((route) => [`routes[${route.number}]`, routeText(route)]))}${more}`
  return `${table}${listed}\n${defaultText(last, list.length > 0)}`
}

function defaultText(last: BackendsJson['default'], hasRoutes: boolean): string {
  if (last === null)
    return hasRoutes ? 'A request that no route covers gets 404: EDGE_BACKEND_URL is not set.\n' : 'Nothing is forwarded.\n'
  const { url, connections, max_connections: max, queue } = last
  const which = hasRoutes ? 'Requests that no route covers go' : 'All requests go'
  return `${which} to EDGE_BACKEND_URL, ${url}: ${numberText(connections)} of ${countText(max, 'connection')}, ${numberText(queue)} waiting.\n`
}

function rowsOf(backend: BackendJson): [string, string][] {
  const { name, url, last_failure: failure } = backend
  return [
    ['backend', `${name}, ${url}`],
    ['state', stateText(backend)],
    ...backend.cooling_models.map((model): [string, string] => ['model', `${model.model ?? 'not known'}, ${modelStateText(model)}`]),
    ['last failure', failure === null ? 'none' : `${failure.reason}, ${failure.at}`],
  ]
}

/** In the words of `edge status`, too. */
export function stateText(backend: Pick<BackendJson, 'state' | 'reason' | 'since' | 'cooling_until'>): string {
  const { state, reason, since, cooling_until: until } = backend
  if (state === 'healthy') return 'healthy'
  const now = state === 'cooling' ? `cooling until ${until}` : 'one request at a time tries it'
  return `${now}, failing since ${since} (${reason})`
}

function modelText(cooling: CoolingModel): string {
  const { model } = cooling
  return `${model === null ? 'requests whose model is not known' : `model ${model}`} ${modelStateText(cooling)}`
}

function modelStateText({ state, reason, until }: CoolingModel): string {
  return `${state === 'cooling' ? `cooling until ${until}` : 'tried by one request at a time'} (${reason})`
}

/** Enough to know them by; --json has all. */
const SHOWN_ROUTES = 8

/** Writes positions as the list of routes does: a bare 0 would read as no route. */
function numbersText(numbers: readonly number[]): string {
  if (numbers.length === 0) return 'none'
  const shown = numbers.slice(0, SHOWN_ROUTES).map((number) => `[${number}]`)
  return shown.join(', ') + (numbers.length > SHOWN_ROUTES ? ', …' : '')
}

function routeText({ selector, match, backends: group, fallback, stick_to: stickTo, attempts }: RouteJson): string {
  const total = group.reduce((sum, { weight }) => sum + weight!, 0)
  const shares = group.map((choice) => `${choiceText(choice)}${group.length > 1 ? ` ${choice.weight} of ${total}` : ''}`)
  const then = fallback.length === 0 ? '' : `, then ${fallback.map(choiceText).join(', then ')}`
  const stuck = stickTo.length === 0 ? '' : `, by ${stickTo.join(', ')}`
  return `${coverageText(selector, match)}: ${shares.join(', ')}${stuck}${then} (${countText(attempts, 'retry', 'retries')})`
}

function choiceText({ name, model }: RouteChoiceJson): string {
  return model === null ? name : `${name} as ${model}`
}

function coverageText(
  { pathPrefix, pathExact, exceptPaths = [], methods = [], hosts = [] }: RouteJson['selector'],
  match: readonly string[],
): string {
  const parts = [
    methods.join(','),
    pathExact ?? (pathPrefix === undefined ? '' : `${pathPrefix}*`),
    exceptPaths.length === 0 ? '' : `except ${exceptPaths.join(', ')}`,
    hosts.length === 0 ? '' : `on ${hosts.join(', ')}`,
    match.length === 0 ? '' : `by ${match.join(', ')}`,
  ].filter((part) => part !== '')
  return parts.length === 0 ? 'all requests' : parts.join(' ')
}
