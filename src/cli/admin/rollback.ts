import { parseArgs } from 'node:util'
import { UsageProblem } from '../text/caller-values.ts'
import { ACTOR_OPTION, type AdminCommand, actorFlag, reasonFlag } from './admin-command.ts'
import { ROLLBACK_HELP } from './help.ts'

const OPTIONS = { to: { type: 'string' }, publish: { type: 'string' }, reason: { type: 'string' }, ...ACTOR_OPTION } as const

export const rollback: AdminCommand = {
  name: 'rollback',
  help: ROLLBACK_HELP,
  read(args) {
    const { to, publish: file, reason, actor } = parseArgs({ args, options: OPTIONS }).values
    if (to !== undefined && !/^\d{1,30}$/.test(to)) throw new UsageProblem(`--to: expected a version such as 41, got ${JSON.stringify(to)}`)
    if (file === '') throw new UsageProblem('--publish: expected the file that the instance reads')
    if (file === undefined && reason !== undefined)
      throw new UsageProblem('--reason: expected --publish FILE too, because the text alone changes nothing')
    const publish = file === undefined ? undefined : { file, reason: reasonFlag(reason) }
    return {
      request: { method: 'GET', path: 'bundle' },
      isJson: false,
      // The text alone changes nothing, so nobody is asked for a name.
      ...(publish === undefined && actor === undefined ? {} : { actor: actorFlag(actor) }),
      describe: String,
      // It reads bundles as the service does, with code that no other command of this kind needs.
      show: async (client) => (await import('./rolling-back.ts')).rollBack(client, { to, publish }),
    }
  },
}
