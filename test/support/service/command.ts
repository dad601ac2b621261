import { vi } from 'vitest'
import { runCommand } from '../../../src/cli/command.ts'

export interface Said {
  readonly status: number
  readonly stdout: string
  readonly stderr: string
}

/**
 * A command that ends by itself, in this process. It writes to the outputs of the process, so that one at a time may run, and no test
 * beside it. That the program does the same is for `finished` to show.
 */
export async function command(...args: string[]): Promise<Said> {
  const said = { stdout: '', stderr: '' }
  const outputs = (['stdout', 'stderr'] as const).map((name) =>
    vi.spyOn(process[name], 'write').mockImplementation((chunk) => {
      said[name] += chunk.toString()
      return true
    }),
  )
  try {
    return { status: await runCommand(args), ...said }
  } finally {
    for (const output of outputs) output.mockRestore()
  }
}
