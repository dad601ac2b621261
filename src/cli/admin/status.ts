import { parseArgs } from 'node:util'
import type { Status } from '../../admin/api/instance-types.ts'
import { countText, durationText, listText, numberText } from '../text/text-table.ts'
import { type AdminCommand, JSON_OPTION } from './admin-command.ts'
import { stateText } from './backends.ts'
import { STATUS_HELP } from './help.ts'

export const status: AdminCommand = {
  name: 'status',
  help: STATUS_HELP,
  read(args) {
    const { values } = parseArgs({ args, options: JSON_OPTION })
    return { request: { method: 'GET', path: 'status' }, isJson: values.json, describe: statusText }
  },
}

const MIB = 1024 * 1024

/** Describes the state of an instance. */
function statusText(status: Status): string {
  const { version, mode, uptime_s: uptimeS, workers, store } = status
  const rows: [string, string][] = [
    ['workers', `${workers.alive} of ${workers.configured} alive`],
    ['memory', `${numberText(Math.round(status.memory_bytes / MIB))} MiB`],
    ['bundle', bundleText(status)],
    ['counters', `${numberText(store.occupied)} of ${numberText(store.slots)} slots in use`],
  ]
  const { redis, state_file: file, key_sets: keySets = [], backends = [], shadow_all: shadowAll } = status
  if (redis) rows.push(['redis', `${redis.mode}, ${redis.address}, ${redis.connected ? 'connected' : 'unreachable'}`])
  if (file) rows.push(['state file', `${file.path}, ${file.saved_at ? `saved ${file.saved_at}` : 'not saved yet'}`])
  for (const keySet of keySets) rows.push([`keys of ${keySet.issuer}`, keySetText(keySet)])
  if (backends.length > 0) rows.push(['backends', backendsText(backends)])
  if (shadowAll) rows.push(['SHADOW', `nothing is enforced until ${shadowAll.until}: ${shadowAll.reason} (${shadowAll.actor})`])
  return `edge ${version}, ${mode}, up ${durationText(uptimeS)}\n${listText(rows)}\n${problemsText(status)}`
}

function bundleText({ bundle }: Status): string {
  if (!bundle) return 'none: every request gets 503'
  const { version, hash, policies, applied_at: appliedAt } = bundle
  return `version ${version}, ${countText(policies, 'policy', 'policies')}, since ${appliedAt}, sha256 ${hash.slice(0, 12)}`
}

function keySetText({ keys, read_at: readAt, url, path, problem, failing_since: since }: Status['key_sets'][number]): string {
  const state = problem === null ? '' : `, failing since ${since}: ${problem}`
  return `${readAt === null ? 'never read' : `${countText(keys, 'key')}, read ${readAt}`}, ${url ?? path}${state}`
}

function backendsText(backends: Status['backends']): string {
  const failing = backends.filter(({ state }) => state !== 'healthy')
  const healthy = `${numberText(backends.length - failing.length)} of ${numberText(backends.length)} healthy`
  return [healthy, ...failing.map((backend) => `${backend.name} ${stateText(backend)}`)].join('; ')
}

/** Each message gets a line of its own, because it may be long. */
function problemsText({ problems }: Status): string {
  if (problems.length === 0) return 'No problems.\n'
  return `${countText(problems.length, 'problem')}:\n${problems.map(problemText).join('')}`
}

/** The message ends with the first detail. */
function problemText({ code, since, message, details = [], details_in_all: inAll = 0 }: Status['problems'][number]): string {
  const more = inAll - details.length
  const lines = [
    message,
    ...details.filter((detail) => !message.endsWith(detail)),
    ...(more > 0 ? [`and ${more} more: edge validate lists all`] : []),
  ]
  return `  ${code} since ${since}\n${lines.map((line) => `    ${line}\n`).join('')}`
}
