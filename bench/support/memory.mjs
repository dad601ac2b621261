import { readdirSync, readFileSync } from 'node:fs'

/** What a process and its children have in memory now, in bytes; nginx serves from a child. */
export function residentBytes(pid) {
  const [, kibibytes] = /^VmRSS:\s*(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))
  return childrenOf(pid).reduce((sum, child) => sum + residentBytes(child), Number(kibibytes) * 1024)
}

function childrenOf(pid) {
  return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').split(' ').filter(Boolean),
  )
}
