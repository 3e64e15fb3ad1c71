// How the scripts here talk to the tests: one JSON argument in, one JSON line out.

export const given = JSON.parse(process.argv[2]);

function told(error) {
  const classes = [];
  for (let at = error?.constructor; at?.name; at = Object.getPrototypeOf(at)) classes.push(at.name);
  return { error: { classes, status: error?.status ?? null, code: error?.code ?? null, message: String(error?.message) } };
}

export async function report(work) {
  let line;
  try {
    line = await work();
  } catch (error) {
    line = told(error);
  }
  await new Promise((done) => process.stdout.write(JSON.stringify(line) + "\n", done));
  process.exit(0);
}
