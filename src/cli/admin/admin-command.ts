import { printableJson, printableText } from '../../text/printable.ts'
import { ignoreClosed } from '../file-problem.ts'
import { AdminProblem, UnconfirmedProblem, UsageProblem } from '../text/caller-values.ts'
import { printable } from '../text/text-table.ts'
import { AdminClient, type AdminRequest, type AdminResponse, readAdminAddress } from './admin-client.ts'

/** Option of every command that asks the admin API. --help is handled by `runAdminCommand`. */
export const JSON_OPTION = { json: { type: 'boolean', default: false } } as const

/** An option of every command that changes something. */
export const ACTOR_OPTION = { actor: { type: 'string' } } as const

/** A command's question, and how it shows the response. */
export interface AdminQuestion {
  readonly request: AdminRequest
  readonly isJson: boolean
  /** Who changes something, if the command says so. Absent if nothing is changed. */
  readonly actor?: string | undefined
  /** Describes the response in words. All texts in the response are printable. */
  describe(response: never): string
  /** Shows it, where one request is not enough. */
  show?(client: AdminClient): Promise<void>
}

export interface AdminCommand {
  readonly name: string
  readonly help: string
  /** Throws a UsageProblem, or what parseArgs throws. */
  readonly read: (args: string[]) => AdminQuestion
  /** Shows the response. By default, it is printed once. */
  readonly show?: (client: AdminClient, question: AdminQuestion) => Promise<void>
}

/** Runs a command that asks the admin API, and returns the exit status. */
export async function runAdminCommand({ name, help, read, show = showOnce }: AdminCommand, args: string[]): Promise<number> {
  if (isHelpAsked(args)) {
    process.stdout.write(help)
    return 0
  }
  process.stdout.off('error', ignoreClosed).on('error', ignoreClosed)
  try {
    const question = read(args)
    const address = readAdminAddress(process.env, question.actor)
    const client = new AdminClient(address)
    await (question.show === undefined ? show(client, question) : question.show(client))
    if ('actor' in question && address.actor === undefined) process.stderr.write(`edge ${name}: ${NAMELESS}\n`)
    return 0
  } catch (error) {
    const problem = await problemOf(error, name, help)
    if (problem === undefined) throw error
    process.stderr.write(`edge ${name}: ${problem}\n`)
    return error instanceof UnconfirmedProblem ? UNCONFIRMED_STATUS : 1
  }
}

const NAMELESS = 'note: this is logged as a change by "unknown"; name yourself with --actor NAME, or set EDGE_ACTOR'
const UNCONFIRMED_STATUS = 2

/** Returns what the command prints for the response to its question. */
export async function ask(client: AdminClient, question: AdminQuestion, signal?: AbortSignal): Promise<string> {
  const response = await client.ask(question.request, signal)
  return question.isJson ? jsonOf(response) : describe(response, question)
}

export async function showOnce(client: AdminClient, question: AdminQuestion): Promise<void> {
  process.stdout.write(await ask(client, question))
}

function jsonOf({ text, json }: AdminResponse): string {
  return json === undefined ? '' : `${printableJson(text).trimEnd()}\n`
}

/** An instance of another version may respond in another format. */
function describe({ json }: AdminResponse, question: AdminQuestion): string {
  try {
    return question.describe(printable(json) as never)
  } catch (error) {
    throw new AdminProblem('this version of edge cannot read the response; --json prints it', { cause: error })
  }
}

function isHelpAsked(args: readonly string[]): boolean {
  const end = args.indexOf('--')
  return args.slice(0, end < 0 ? undefined : end).some((arg) => arg === '--help' || arg === '-h')
}

/** What suggests options is loaded only where one is wrong. */
async function problemOf(error: unknown, name: string, help: string): Promise<string | undefined> {
  if (error instanceof AdminProblem) return error.message
  if (error instanceof UsageProblem) return `${printableText(error.message)}; see edge ${name} --help`
  return (await import('../usage-problem.ts')).argumentProblem(error, name, help)
}

/** Every change by an operator needs a reason, which is logged. */
export function reasonFlag(reason: string | undefined): string {
  if (!reason?.trim()) throw new UsageProblem('expected --reason TEXT: the log says why something was changed')
  return reason
}

/** Reads who changes something. Undefined means EDGE_ACTOR, or $USER. */
export function actorFlag(actor: string | undefined): string | undefined {
  if (actor !== undefined && actor.trim() === '') throw new UsageProblem('--actor: expected a name')
  return actor
}
