import { findProgram } from './programs.mjs'
import { newSocketLoad } from './socket-load.mjs'
import { newWrkLoad } from './wrk.mjs'

/** wrk where it is installed, else our own. Both answer how many requests were answered, rejected and lost, and in what time. */
export async function newLoad() {
  const wrk = findProgram('wrk')
  return wrk === undefined ? await newSocketLoad() : newWrkLoad(wrk)
}
