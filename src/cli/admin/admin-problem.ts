/** Why the admin API could not do what was asked, as a sentence. */
export class AdminProblem extends Error {}

/** What is wrong with a command's arguments, as a sentence. */
export class UsageProblem extends Error {}
