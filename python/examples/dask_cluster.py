"""A Dask cluster on this host, with ucxpool between its processes."""
from distributed import Client, LocalCluster


def main() -> None:
    with LocalCluster(protocol="ucxpool", n_workers=2, threads_per_worker=1,
                      dashboard_address=":0") as cluster:
        with Client(cluster) as client:
            print(cluster.scheduler_address.split("//")[0])
            squares = client.map(lambda number: number * number, range(100))
            print(client.submit(sum, squares).result())


if __name__ == "__main__":
    main()
