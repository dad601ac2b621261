import { keys } from '../keys/keys.ts'
import { type AdminCommand, runAdminCommand } from './admin-command.ts'
import { backends } from './backends.ts'
import { bundle } from './bundle.ts'
import { caller } from './caller.ts'
import { counters, reset } from './counters.ts'
import { changes, events } from './events.ts'
import { explain } from './explain.ts'
import { override } from './override.ts'
import { rollback } from './rollback.ts'
import { status } from './status.ts'
import { top } from './top.ts'

const COMMANDS: readonly AdminCommand[] = [
  status,
  backends,
  top,
  caller,
  explain,
  counters,
  reset,
  override,
  keys,
  events,
  changes,
  bundle,
  rollback,
]

/** Runs the command of this name and returns its exit status. */
export function runAdmin(name: string, args: string[]): Promise<number> {
  return runAdminCommand(COMMANDS.find((command) => command.name === name)!, args)
}
