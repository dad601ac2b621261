/** Why nothing can be replayed, as a sentence. */
export class ReplayProblem extends Error {}
