import { parseArgs } from 'node:util'
import type {
  KeyChangeRequest,
  KeyJson,
  KeyLabelsJson,
  KeyPage,
  KeyRequest,
  KeysAcknowledgement,
  NewKey,
  RevokedKey,
} from '../../admin/api/key-types.ts'
import { keyDigest, keyIdOf } from '../../callers/keys/issued-key.ts'
import { printableJson } from '../../text/printable.ts'
import type { AdminClient } from '../admin/admin-client.ts'
import { ACTOR_OPTION, type AdminCommand, type AdminQuestion, actorFlag, JSON_OPTION, reasonFlag } from '../admin/admin-command.ts'
import { KEYS_HELP } from '../admin/help.ts'
import { UsageProblem } from '../text/caller-values.ts'
import { listText, printable, tableText } from '../text/text-table.ts'
import { importKeys } from './import.ts'
import { allKeys, exportLine, labelsText } from './key-list.ts'

const OPTIONS = {
  ...JSON_OPTION,
  ...ACTOR_OPTION,
  reason: { type: 'string' },
  expires: { type: 'string' },
  prune: { type: 'boolean' },
  'dry-run': { type: 'boolean' },
  'keep-streams': { type: 'boolean' },
} as const

type Values = ReturnType<typeof parseArgs<{ options: typeof OPTIONS; allowPositionals: true }>>['values']

interface Action {
  /** The options that it takes. */
  readonly options: readonly (keyof typeof OPTIONS)[]
  readonly read: (args: readonly string[], values: Values) => AdminQuestion
}

const CHANGING = ['reason', 'actor', 'json'] as const

const ACTIONS: Readonly<Record<string, Action>> = {
  create: { options: [...CHANGING, 'expires'], read: creation },
  list: { options: ['json'], read: listing },
  show: { options: ['json'], read: showing },
  change: { options: [...CHANGING, 'expires'], read: changing },
  revoke: { options: [...CHANGING, 'keep-streams'], read: revoking },
  import: { options: ['reason', 'actor', 'prune', 'dry-run'], read: importing },
  export: { options: [], read: exporting },
  acknowledge: { options: CHANGING, read: acknowledging },
}

export const keys: AdminCommand = {
  name: 'keys',
  help: KEYS_HELP,
  read(args) {
    const { values, positionals } = parseArgs({ args, options: OPTIONS, allowPositionals: true })
    const [name, ...rest] = positionals
    const action = name === undefined ? undefined : ACTIONS[name]
    if (action === undefined)
      throw new UsageProblem(
        `expected one of ${Object.keys(ACTIONS).join(', ')}${name === undefined ? '' : `, got ${JSON.stringify(name)}`}`,
      )
    const given = (Object.keys(values) as (keyof typeof OPTIONS)[]).filter((option) => option !== 'json' || values.json)
    const surplus = given.filter((option) => !action.options.includes(option))
    if (surplus.length > 0) throw new UsageProblem(`${name}: unexpected ${surplus.map((option) => `--${option}`).join(', ')}`)
    return action.read(rest, values)
  },
}

function creation(args: readonly string[], { reason, expires, actor, json: isJson }: Values): AdminQuestion {
  if (args.length === 0) throw new UsageProblem('create: expected LABEL=VALUE, such as team=search')
  const body: KeyRequest = {
    labels: labelsOf(args),
    reason: reasonFlag(reason),
    ...(expires !== undefined && { expires_at: endOf(expires) }),
  }
  return { request: { method: 'POST', path: 'keys', body }, actor: actorFlag(actor), isJson, describe: newKeyText }
}

function newKeyText(key: NewKey): string {
  return `${keyText(key)}\n${key.key}\n\nThis is the key. It is shown only now: nobody can read it again.\n`
}

function changing([id, ...labels]: readonly string[], { reason, expires, actor, json: isJson }: Values): AdminQuestion {
  const path = `keys/${idOf('change', id)}`
  if (labels.length === 0 && expires === undefined)
    throw new UsageProblem('change: expected LABEL=VALUE, which replace all labels, or --expires TIME')
  const body: KeyChangeRequest = {
    ...(labels.length > 0 && { labels: labelsOf(labels) }),
    ...(expires !== undefined && { expires_at: endOf(expires) }),
    reason: reasonFlag(reason),
  }
  return { request: { method: 'PATCH', path, body }, actor: actorFlag(actor), isJson, describe: keyText }
}

function revoking(
  [id, ...others]: readonly string[],
  { reason, 'keep-streams': keepsStreams, actor, json: isJson }: Values,
): AdminQuestion {
  const path = `keys/${idOf('revoke', id)}`
  refuseOthers('revoke', others)
  return {
    request: { method: 'DELETE', path, query: { reason: reasonFlag(reason), ...(keepsStreams && { keep_streams: 'true' }) } },
    actor: actorFlag(actor),
    isJson,
    describe: ({ streams_ended }: RevokedKey) => (keepsStreams ? 'Revoked.\n' : `Revoked.${endedText(streams_ended)}\n`),
  }
}

function endedText(count: number): string {
  if (count === 0) return ''
  return count === 1 ? ' 1 stream of this key was ended.' : ` ${count} streams of this key were ended.`
}

function acknowledging(args: readonly string[], { reason, actor, json: isJson }: Values): AdminQuestion {
  refuseOthers('acknowledge', args)
  const body: KeysAcknowledgement = { reason: reasonFlag(reason) }
  return {
    request: { method: 'POST', path: 'keys/acknowledge', body },
    actor: actorFlag(actor),
    isJson,
    describe: () => 'Acknowledged.\n',
  }
}

function showing([id, ...others]: readonly string[], { json: isJson }: Values): AdminQuestion {
  // A key that was found somewhere is never sent: its id follows from it.
  const path = `keys/${id?.startsWith('edge_') ? keyIdOf(keyDigest(id)) : idOf('show', id)}`
  refuseOthers('show', others)
  return { request: { method: 'GET', path }, isJson, describe: keyText }
}

const FIRST_PAGE = { method: 'GET', path: 'keys', query: { limit: '1000' } } as const

function listing(args: readonly string[], { json: isJson }: Values): AdminQuestion {
  const labels = labelsOf(args)
  const show = async (client: AdminClient): Promise<void> => {
    let count = 0
    for await (const { page, text } of allKeys(client, labels)) {
      count += page.keys.length
      if (isJson) process.stdout.write(`${printableJson(text).trimEnd()}\n`)
      else if (page.keys.length > 0) process.stdout.write(pageText(printable(page) as KeyPage))
    }
    if (count === 0 && !isJson) process.stdout.write('No keys.\n')
  }
  return { request: FIRST_PAGE, isJson, describe: pageText, show }
}

function exporting(args: readonly string[]): AdminQuestion {
  refuseOthers('export', args)
  const show = async (client: AdminClient): Promise<void> => {
    for await (const { page } of allKeys(client, {})) {
      const kept = page.keys.filter(({ status }) => status !== 'revoked')
      process.stdout.write(kept.map((key) => `${exportLine(key)}\n`).join(''))
    }
  }
  return { request: FIRST_PAGE, isJson: false, describe: () => '', show }
}

function importing(
  [file, ...others]: readonly string[],
  { reason, actor, prune = false, 'dry-run': isDryRun = false }: Values,
): AdminQuestion {
  if (!file) throw new UsageProblem('import: expected FILE, or - for standard input')
  refuseOthers('import', others)
  const order = { file, reason: isDryRun ? '' : reasonFlag(reason), prune, isDryRun }
  const question = { request: FIRST_PAGE, isJson: false, describe: () => '', show: (client: AdminClient) => importKeys(client, order) }
  return isDryRun ? question : { ...question, actor: actorFlag(actor) }
}

function refuseOthers(action: string, others: readonly string[]): void {
  if (others.length > 0) throw new UsageProblem(`${action}: unexpected ${others.join(', ')}`)
}

/** A key in place of its id must not be sent in a URL. What changes a key wants the id itself. */
function idOf(action: string, id: string | undefined): string {
  if (!id?.trim()) throw new UsageProblem(`${action}: expected the id of a key; edge keys list shows the ids`)
  if (id.startsWith('edge_'))
    throw new UsageProblem(`${action}: expected the id of a key, not the key itself, whose id is ${keyIdOf(keyDigest(id))}`)
  if (!/^[0-9a-f]{12}$/.test(id))
    throw new UsageProblem(`${action}: expected the id of a key, twelve hexadecimal digits, got ${JSON.stringify(id)}`)
  return id
}

function labelsOf(args: readonly string[]): KeyLabelsJson {
  const labels = new Map<string, string>()
  for (const arg of args) {
    const [, name, value] = /^([^=]+)=(.+)$/s.exec(arg) ?? []
    if (name === undefined) throw new UsageProblem(`expected LABEL=VALUE, such as team=search, got ${JSON.stringify(arg)}`)
    if (labels.has(name)) throw new UsageProblem(`label ${name} is given twice`)
    labels.set(name, value!)
  }
  return Object.fromEntries(labels)
}

function endOf(expires: string): string | null {
  return expires === 'never' ? null : expires
}

const COLUMNS = [{ head: 'ID' }, { head: 'STATUS' }, { head: 'EXPIRES' }, { head: 'LABELS' }]

function pageText({ keys: listed }: KeyPage): string {
  return tableText(
    COLUMNS,
    listed.map(({ id, status, expires_at, labels }) => [id, status, expires_at ?? 'never', labelsText(labels)]),
  )
}

function keyText(key: KeyJson): string {
  const { id, labels, status, created_at, actor, reason, expires_at, edited, durable } = key
  const rows: [string, string][] = [
    ['labels', labelsText(labels)],
    ['status', status],
    ['expires', expires_at ?? 'never'],
    ['by', `${actor}, ${created_at}`],
    ['reason', reason],
  ]
  if (edited) rows.push([status === 'revoked' ? 'revoked' : 'changed', `${edited.actor}, ${edited.at}: ${edited.reason}`])
  if (!durable) rows.push(['note', 'it ends with the process, which has neither EDGE_KEYS_FILE nor Redis'])
  return `${id}\n${listText(rows)}`
}
