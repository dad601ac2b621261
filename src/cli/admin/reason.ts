import { UsageProblem } from './admin-problem.ts'

/** Why an operator changes something: the log keeps it. */
export function reasonFlag(reason: string | undefined): string {
  if (!reason?.trim()) throw new UsageProblem('expected --reason TEXT: the log says why something was changed')
  return reason
}
