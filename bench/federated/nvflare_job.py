"""A job of NVFlare's simulator whose clients give back the array they get.

  nvflare_job.py FOLDER MEGABYTES CLIENTS ROUNDS MARKS
  nvflare_job.py MARKS        as NVFlare runs it in each client
"""

import pathlib
import sys
import time


def client(marks):
    """Writes down when it has received a model, if it is the first client."""
    import nvflare.client as flare

    flare.init()
    while flare.is_running():
        model = flare.receive()
        if flare.get_site_name() == "site-1":
            with open(marks, "a") as file:
                file.write(f"{time.time()}\n")
        flare.send(flare.FLModel(params=model.params))


def main(folder, megabytes, clients, rounds, marks):
    import numpy as np
    from nvflare.app_common.np.recipes.fedavg import NumpyFedAvgRecipe
    from nvflare.recipe.sim_env import SimEnv

    initial = pathlib.Path(folder) / "initial.npy"
    np.save(initial, np.ones(int(megabytes) * 10**6 // 4, "float32"))
    recipe = NumpyFedAvgRecipe(
        name="exchange",
        initial_ckpt=str(initial),
        min_clients=int(clients),
        num_rounds=int(rounds) + 1,
        train_script=__file__,
        train_args=marks,
    )
    env = SimEnv(
        num_clients=int(clients),
        num_threads=int(clients),
        workspace_root=folder,
    )
    print(recipe.execute(env).get_status())


if __name__ == "__main__":
    main(*sys.argv[1:]) if len(sys.argv) > 2 else client(sys.argv[1])
