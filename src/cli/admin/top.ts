import { parseArgs } from 'node:util'
import { type AdminCommand, JSON_OPTION } from './admin-command.ts'
import { UsageProblem } from './admin-problem.ts'
import { TOP_HELP } from './help.ts'
import { showRepeatedly } from './screen.ts'
import { topText } from './top-text.ts'

export const top: AdminCommand = {
  name: 'top',
  help: TOP_HELP,
  read(args) {
    const { values, positionals } = parseArgs({ args, options: JSON_OPTION, allowPositionals: true })
    const [policy, rule, ...surplus] = positionals
    if (surplus.length > 0) throw new UsageProblem(`expected a policy and a rule at most, got ${surplus.join(', ')} too`)
    const query = { ...(policy !== undefined && { policy }), ...(rule !== undefined && { rule }) }
    return { request: { method: 'GET', path: 'top', query }, isJson: values.json, describe: topText }
  },
  show: showRepeatedly,
}
