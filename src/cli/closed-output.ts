/** For errors of standard output: a reader such as `head` has seen enough. */
export function ignoreClosed(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE') throw error
}
